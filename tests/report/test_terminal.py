"""Learning curves in the terminal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rda.report.comparison import build_comparison
from rda.report.curves import Curve, Panel
from rda.report.points import Points
from rda.report.reading import GoalLine
from rda.report.terminal import draw


def panel(*values, column="loss", goal=None):
    curves = [
        Curve(f"curve {i}", "#0072b2", Points(range(1, len(one) + 1), one))
        for i, one in enumerate(values)
    ]
    return Panel(column, tuple(curves), goal)


def lines(drawn):
    return drawn.plain.split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 20), (40, 10), (200, 50)])
def test_a_drawing_fits_where_it_is_put(width, height):
    drawn = draw(panel([3.0, 2.0, 1.0], [1.0, 2.0]), width, height)
    assert len(lines(drawn)) == height
    assert max(map(len, lines(drawn))) <= width


def test_a_falling_curve_falls():
    rows = lines(draw(panel([100.0 - step for step in range(100)]), 60, 15))
    body = [line for line in rows if "│" in line or "┤" in line]
    dots = [[i for i, letter in enumerate(line) if "⠀" < letter <= "⣿"] for line in body]
    left = [min(row) for row in dots if row]
    assert left == sorted(left)
    assert len(left) > 5


def test_every_curve_is_known_without_its_colour():
    drawn = draw(panel([1.0, 2.0], [2.0, 1.0], [1.5, 1.5]), 60, 15).plain
    picture, legend = drawn.rsplit("\n", 1)
    assert legend.split("   ") == ["1 curve 0", "2 curve 1", "3 curve 2"]
    body = "".join(line[5:] for line in picture.split("\n")[1:-2])
    assert all(mark in body for mark in "123")


def test_curves_that_end_alike_keep_their_marks():
    drawn = draw(panel(*[[1.0, 2.0]] * 3), 60, 15).plain
    body = "".join(line[5:] for line in drawn.split("\n")[1:-3])
    assert all(mark in body for mark in "123")


def test_axes_carry_numbers_and_the_goal_is_seen():
    goal = GoalLine("accuracy", 0.99, "accuracy > 0.99")
    text = draw(panel([0.1, 0.5, 0.9], column="accuracy", goal=goal), 80, 20).plain
    assert "1.0 ┤╌" in text
    assert "0.0 ┤" in text
    assert "goal accuracy > 0.99" in text


def test_a_logarithmic_axis_has_round_numbers():
    text = draw(panel([10.0**-step for step in range(5)]), 80, 20).plain
    assert all(f"{number} ┤" in text for number in ("1", "0.1", "0.01", "0.001", "0.0001"))


def test_a_curve_stops_where_the_loss_broke():
    text = draw(panel([2.0, 1.0, math.nan, math.nan]), 60, 12).plain
    assert "1 curve 0" in text


def test_odd_runs_are_drawn(odd_runs):
    for shown in build_comparison(odd_runs).panels:
        assert "RWA, killed" in draw(shown).plain.replace("\n", " ")
        assert draw(shown, 1, 1).plain


def test_nothing_to_draw_is_said():
    assert "nothing to draw yet" in draw(panel([])).plain
    assert "nothing to draw yet" in draw(panel()).plain


@given(
    st.lists(st.lists(st.floats(width=64), max_size=8), max_size=4),
    st.integers(1, 120),
    st.integers(1, 40),
)
def test_no_values_and_no_size_stop_the_drawing(values, width, height):
    assert draw(panel(*values), width, height).plain
