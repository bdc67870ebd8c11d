"""What a forecast reads and what it is compared with: nothing of the future, nothing of others."""

import numpy as np
import pytest

from rda.sequences.dataset import from_arrays
from rda.sequences.forecasting import (
    RUNNING,
    change_of,
    drifts,
    last_known,
    next_values,
    standards_of_changes,
    with_changes,
)

NAN = np.nan


def test_the_last_value_is_of_the_same_sequence_and_not_of_the_future():
    column = np.array([NAN, 1.0, NAN, np.inf, 2.0, NAN, 5.0, NAN])
    found = last_known(column, np.array([5, 3]))
    np.testing.assert_array_equal(found, [NAN, 1, 1, 1, 2, NAN, 5, 5])


def test_changes_and_levels_of_a_series_that_drifts():
    series = from_arrays([[10.0, 12.0, NAN, 15.0], [7.0, 6.0]], channels=["x"])
    plain = with_changes(series, ["x"], [])
    assert [channel.name for channel in plain.channels] == ["x", change_of("x")]
    np.testing.assert_array_equal(plain.values[:, 0], series.values[:, 0])
    np.testing.assert_array_equal(plain.values[:, 1], [0, 2, NAN, 3, 0, -1])
    drifting = with_changes(series, ["x"], ["x"])
    running = [10, 11, NAN, (10 + 12 + 12 + 15) / 4, 7, 6.5]
    np.testing.assert_allclose(drifting.values[:, 0], series.values[:, 0] - running)


def test_a_running_mean_forgets():
    series = from_arrays([np.concatenate([np.zeros(30), np.full(3 * RUNNING, 1e9)])])
    found = with_changes(series, ["channel 1"], ["channel 1"])
    assert found.values[30, 0] > 0
    np.testing.assert_array_equal(found.values[30 + RUNNING :, 0], 0.0)


def test_what_is_read_does_not_depend_on_what_comes_later():
    series = np.random.default_rng(0).normal(size=200).cumsum()
    whole = with_changes(from_arrays([series]), ["channel 1"], ["channel 1"]).values
    part = with_changes(from_arrays([series[:120]]), ["channel 1"], ["channel 1"]).values
    np.testing.assert_array_equal(whole[:120], part)


@pytest.mark.parametrize(("drift", "expected"), [(0.0, False), (0.05, True)])
def test_a_series_without_a_level_of_its_own_is_noticed(drift, expected):
    t = np.arange(300)
    series = np.sin(t / 5) + drift * t
    assert drifts(series, np.array([300])) is expected
    assert drifts(np.full(300, 2.0), np.array([300])) is False
    assert drifts(np.array([1.0, 2.0]), np.array([2])) is False


def test_next_values_end_with_their_sequence():
    levels = np.array([[1.0], [2.0], [NAN], [4.0], [10.0], [11.0]])
    found = next_values(levels, np.array([4, 2]), 2)[..., 0]
    expected = [[2, NAN], [NAN, 4], [4, NAN], [NAN, NAN], [11, NAN], [NAN, NAN]]
    np.testing.assert_array_equal(found, expected)


def test_changes_are_measured_at_each_number_of_steps_ahead():
    line = np.arange(50.0)[:, None] * 3
    means, deviations = standards_of_changes(line, np.array([50]), 2)
    np.testing.assert_allclose(means, [3, 6])
    np.testing.assert_allclose(deviations, 1)  # all changes are the same
    steps = np.random.default_rng(0).normal(size=4000).cumsum()[:, None]
    _, deviations = standards_of_changes(steps, np.array([4000]), 4)
    np.testing.assert_allclose(deviations, np.sqrt([1, 2, 3, 4]), rtol=0.1)
