"""What the pictures rest on: means, thinning, dashes, the clock."""

import math
from dataclasses import replace

import pytest

from rda.report.axis import Axis
from rda.report.chart import over_characters
from rda.report.colours import COLOURS
from rda.report.comparison import build_comparison
from rda.report.curves import Curve, Panel
from rda.report.points import Clock, Points, smoothed, thinned


def panels_of(records):
    return build_comparison(records).panels


def test_the_trailing_mean_is_one():
    mean = smoothed(Points([1, 2, 3, 4], [1.0, 3.0, 5.0, 7.0]), 2)
    assert mean == ([1, 2, 3, 4], [1.0, 2.0, 4.0, 6.0])


def test_one_broken_value_does_not_break_the_mean_for_good():
    mean = smoothed(Points(range(1, 7), [1.0, math.inf, math.nan, 1.0, 2.0, 4.0]), 2)
    assert [math.isfinite(value) for value in mean.values] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert mean.values[-1] == 3.0


def test_a_long_curve_keeps_its_ends_its_peaks_and_its_gaps():
    values = [1.0] * 100_000
    values[12_345], values[54_321], values[77_777] = 50.0, -50.0, math.nan
    few = thinned(Points(range(100_000), values))
    assert len(few.steps) == len(few.values) <= 1000
    assert {0, 12_345, 54_321, 77_777, 99_999} <= set(few.steps)
    assert list(few.steps) == sorted(few.steps)
    mean = smoothed(Points(range(100_000), values), 10)
    assert len(mean.steps) <= 1000
    assert mean.steps[-1] == 99_999


def test_the_loss_and_the_metric_are_drawn_and_the_goal_where_it_belongs(odd_runs):
    loss, accuracy = panels_of(odd_runs)
    assert (loss.column, loss.goal, accuracy.column) == ("loss", None, "accuracy")
    assert str(accuracy.goal) == "accuracy > 0.99"
    by_label = {curve.label: curve for curve in accuracy.curves}
    assert by_label["RDA-exp-tanh"].goal == (101, 1 - 1 / 101)
    assert by_label["LSTM, failed"].cut_short == (1, 0.1)
    assert "RWA, killed" in by_label


def test_where_the_metric_is_the_loss_there_is_one_panel(write_run):
    (panel,) = panels_of([write_run(task="addition", rows=[{"step": 1, "loss": 0.2}])])
    assert panel.goal is not None


def test_evaluations_are_drawn_beside_the_batches(write_run):
    rows = [{"step": 1, "loss": 1.0}, {"step": 1, "validation_loss": 2.0}]
    loss, _ = panels_of([write_run(task="mnist", rows=rows)])
    assert loss.curves[0].validation == ([1], [2.0])


def test_runs_of_different_tasks_do_not_share_a_picture(write_run):
    with pytest.raises(ValueError, match="multicopy, copy"):
        panels_of([write_run("a"), write_run("b", "copy")])
    with pytest.raises(ValueError, match="no runs"):
        panels_of([])


@pytest.mark.parametrize(
    ("column", "values", "log"),
    [
        ("loss", [2.0, 0.1], True),
        ("loss", [2.0, 1.0], False),
        ("loss", [2.0, 0.0], False),
        ("loss", [math.nan], False),
        ("accuracy", [0.001, 1.0], False),
    ],
)
def test_the_axis_is_logarithmic_where_that_helps(column, values, log):
    curve = Curve("a", "#000000", Points(range(len(values)), values))
    assert Panel(column, (curve,)).log is log


def test_an_axis_that_reaches_so_far_says_that_there_is_more():
    curves = [
        Curve("LSTM", COLOURS["LSTM"], Points([1, 2], [2.0, 1.5])),
        Curve("RWA", COLOURS["RWA"], Points([1, 2], [5.5, 5.0])),
    ]
    whole = Panel("validation_bits", tuple(curves))
    assert whole.vertical == Axis(1.5, 5.5)
    assert whole.title == "validation bits"
    near = replace(whole, reach=1.0)
    assert near.vertical == Axis(1.5, 2.5)
    assert near.title == "validation bits, above 2.5 at the upper edge"
    assert replace(near, curves=near.curves[:1]).title == "validation bits"
    lstm, rwa = over_characters(near, 500_000).lines
    assert rwa.smooth == "M500 0L1000 0"
    assert rwa.values == "5.5 5"
    assert lstm.smooth.startswith("M500 ")


def test_two_runs_of_a_unit_share_its_colour_and_not_its_dash(write_run):
    loss, _ = panels_of([write_run("a"), write_run("b")])
    first, second = loss.curves
    assert first.colour == second.colour == COLOURS["RDA-exp-tanh"]
    assert first.dash != second.dash


def test_a_curve_that_would_be_hidden_shows_through_the_gaps_of_the_one_above(write_run):
    same = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 200)]
    other = [{"step": s, "loss": 2.0, "accuracy": 0.2} for s in range(1, 200)]
    rows = {"RDA-exp-tanh": same, "RDA-sigmoid-id": same, "RWA": same, "LSTM": other}
    loss, accuracy = panels_of([write_run(unit, unit=unit, rows=rows[unit]) for unit in rows])
    dashes = [curve.dash for curve in accuracy.curves]
    assert dashes == [curve.dash for curve in loss.curves]
    assert len(set(dashes[:3])) == 3
    assert dashes[2:] == [(), ()]


def test_curves_that_only_cross_are_solid(write_run):
    up = [{"step": s, "accuracy": s / 200} for s in range(1, 200)]
    down = [{"step": s, "accuracy": 1 - s / 200} for s in range(1, 200)]
    _, accuracy = panels_of([write_run("a", unit="RWA", rows=up), write_run("b", rows=down)])
    assert [curve.dash for curve in accuracy.curves] == [(), ()]


def test_seconds_are_read_between_the_timings_and_never_made_up():
    clock = Clock.from_timings([(50, 2.0), (40, 9.0), (100, 4.0), (150, math.nan)])
    assert [clock.seconds(step) for step in (0, 25, 50, 75, 100)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert clock.seconds(101) is None
