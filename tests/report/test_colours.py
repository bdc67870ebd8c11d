"""Every unit has a colour, and colours can be told apart."""

from itertools import combinations

import pytest

from rda.labels import COMPARED, UNIT_LABELS
from rda.report.colours import COLOURS, SPARE, unit_colours
from rda.report.comparison import build_comparison
from rda.report.figure import render_png
from rda.report.summary import summarise
from rda.report.tables import runs_table

PROTAN = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
          (-0.003882, -0.048116, 1.051998))  # fmt: skip
DEUTAN = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
          (-0.011820, 0.042940, 0.968881))  # fmt: skip
TRITAN = ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
          (0.004733, 0.691367, 0.303900))  # fmt: skip
"""How colours look to people who lack one kind of cone, in linear RGB: Machado, Oliveira and
Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009."""
TRICHROMAT = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
VISIONS = (TRICHROMAT, PROTAN, DEUTAN, TRITAN)
SRGB = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750),
        (0.0193339, 0.1191920, 0.9503041))  # fmt: skip
WHITE = (0.95047, 1.0, 1.08883)


def linear(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def contrast(one, other):
    dark, light = sorted(times(SRGB, linear(colour))[1] for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour, vision):
    seen = [min(max(part, 0.0), 1.0) for part in times(vision, linear(colour))]
    shares = [part / white for part, white in zip(times(SRGB, seen), WHITE, strict=True)]
    x, y, z = (s ** (1 / 3) if s > 0.008856 else 7.787 * s + 16 / 116 for s in shares)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other):
    """CIE76, to whoever sees the smallest difference."""
    pairs = [(lab(one, vision), lab(other, vision)) for vision in VISIONS]
    return min(sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5 for pair in pairs)


@pytest.mark.parametrize("ground", ["#ffffff", "#14171c"])
def test_every_colour_shows_on_light_and_dark(ground):
    assert all(contrast(colour, ground) >= 3 for colour in (*COLOURS.values(), *SPARE))


def test_every_unit_of_the_paper_has_its_own_colour():
    assert set(COLOURS) == set(UNIT_LABELS)
    assert len({*COLOURS.values(), *SPARE}) == len(COLOURS) + len(SPARE)


def test_no_kind_of_colour_vision_takes_two_colours_for_one():
    five = [COLOURS[unit] for unit in COMPARED]
    assert min(distance(*pair) for pair in combinations(five, 2)) >= 19
    assert min(distance(*pair) for pair in combinations(COLOURS.values(), 2)) >= 16
    assert min(distance(*pair) for pair in combinations((*five, *SPARE), 2)) >= 12


def test_a_users_own_units_get_colours_of_their_own():
    mine = [f"Mine {number}" for number in range(len(SPARE))]
    colours = unit_colours(["LSTM", *mine])
    assert colours["LSTM"] == COLOURS["LSTM"]
    assert sorted(colours[unit] for unit in mine) == sorted(SPARE)
    assert unit_colours([*reversed(mine), "LSTM"]) == colours


def test_a_users_own_unit_keeps_its_colour_beside_others():
    assert unit_colours(["Mine"])["Mine"] == unit_colours(["Mine", "RWA", "GRU"])["Mine"]


def test_more_units_than_colours_all_have_one():
    units = [f"unit {number}" for number in range(3 * len(SPARE))]
    assert set(unit_colours(units)) == set(units)


def test_a_users_own_unit_is_in_every_report(write_run, write_own_run):
    rows = [{"step": s, "loss": 1 / s, "accuracy": 1 - 1 / s} for s in range(1, 20)]
    records = [write_own_run("mine", "Mine", rows=rows), write_run("theirs", rows=rows)]
    comparison = build_comparison(records)
    assert {row.label for row in comparison.rows} == {"Mine", "RDA-exp-tanh"}
    assert [curve.label for curve in comparison.panels[0].curves] == ["RDA-exp-tanh", "Mine"]
    assert render_png(comparison)
    assert runs_table([summarise(record) for record in records])
