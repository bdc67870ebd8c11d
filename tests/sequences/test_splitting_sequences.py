"""Parts of a split: complete, disjoint, fair to classes and groups, and the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from made_data import waves

from rda.sequences import SequencesError
from rda.sequences.dataset import from_arrays
from rda.sequences.preparing import Preparation, prepared_for, standards
from rda.sequences.problem import Divided
from rda.sequences.splitting import Shares, split


@pytest.mark.parametrize("how", ["auto", "stratified", "random", "time"])
@pytest.mark.parametrize("count", [3, 7, 60, 101])
def test_every_sequence_is_in_one_part(how, count):
    sequences = waves(max(count, 3))
    if how in ("auto", "stratified") and count == 3:
        with pytest.raises(SequencesError, match="no class has three"):
            split(sequences, how, Shares())
        return
    parts = split(sequences, how, Shares())
    together = np.sort(np.concatenate(list(parts.values())))
    np.testing.assert_array_equal(together, np.arange(count))
    assert all(len(part) for part in parts.values())
    again = split(sequences, how, Shares())
    assert all(np.array_equal(parts[name], again[name]) for name in parts)


def test_a_stratified_split_has_each_class_in_every_part():
    sequences = waves(100)
    labels = np.array([0.0] * 80 + [1.0] * 20)
    sequences = replace(sequences, target=replace(sequences.target, values=labels))
    parts = split(sequences, "stratified", Shares(0.2, 0.2))
    counts = {name: np.bincount(labels[some].astype(int)).tolist() for name, some in parts.items()}
    assert counts == {"train": [48, 12], "validation": [16, 4], "test": [16, 4]}


def test_a_group_is_never_divided():
    sequences = replace(waves(60), groups=np.arange(60) % 7)
    parts = split(sequences, "auto", Shares())
    seen = [set(sequences.groups[some].tolist()) for some in parts.values()]
    assert all(not a & b for i, a in enumerate(seen) for b in seen[:i])
    with pytest.raises(SequencesError, match="needs a column that names the groups"):
        split(waves(60), "group", Shares())


def test_a_forecast_never_trains_on_what_it_is_tested_with():
    sequences = from_arrays([np.arange(100.0), np.arange(50.0)])
    division = {
        "problem": "forecast", "split": "auto", "validation": 0.2, "test": 0.1,
        "horizon": 3, "window": 20,
    }  # fmt: skip
    divided = Divided.of(sequences, division)
    train, validation, test = (divided.parts[part] for part in ("train", "validation", "test"))
    assert set(train.limits.tolist()) == {70, 100 + 35}
    assert (train.starts + train.lengths <= train.limits).all()
    # The first value that is forecast lies one step after the step that it is forecast at.
    assert (validation.starts + validation.scored_from + 1).tolist() == [70, 135]
    assert validation.limits.tolist() == [90, 145]
    assert (test.starts + test.scored_from + 1).tolist() == [90, 145]
    assert test.limits.tolist() == [100, 150]
    with pytest.raises(SequencesError, match="no series is long enough to forecast 40 steps"):
        Divided.of(sequences, {**division, "horizon": 40})


def test_numbers_are_standardised_and_what_is_missing_is_said():
    sequences = waves(40, missing=0.1)
    preparation = prepared_for(sequences)
    inputs = preparation.apply(sequences.values)
    assert preparation.names == ("a", "a is missing", "b", "b is missing")
    missing = np.isnan(sequences.values)
    np.testing.assert_array_equal(inputs[:, 1::2], missing)
    np.testing.assert_array_equal(inputs[:, ::2][missing], 0.0)
    for i in range(2):
        known = inputs[:, 2 * i][~missing[:, i]]
        assert abs(known.mean()) < 1e-6
        assert known.std() == pytest.approx(1.0, abs=1e-5)
    again = Preparation.from_facts(preparation.to_facts())
    assert again == preparation


def test_extreme_and_constant_numbers_are_standardised_too():
    assert standards(np.full(5, 7.25)) == (7.25, 1.0)
    assert standards(np.zeros(3)) == (0.0, 1.0)
    mean, deviation = standards(np.array([1e300, -1e300]))
    assert (mean, deviation) == (0.0, 1e300)
    mean, deviation = standards(1.7e9 + np.array([0.0, 1.0, 2.0]))
    assert deviation == pytest.approx(np.sqrt(2 / 3), rel=1e-6)
