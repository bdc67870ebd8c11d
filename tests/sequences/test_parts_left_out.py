"""Sequences that are split without a part that validates or tests."""

import numpy as np
import pytest
from made_data import waves

from rda.sequences import SequencesError
from rda.sequences.dataset import from_arrays
from rda.sequences.problem import Divided
from rda.sequences.splitting import Shares, split
from rda.training.by_name import train

FORECAST = {"problem": "forecast", "split": "auto", "horizon": 2, "window": 10}


@pytest.mark.parametrize("how", ["stratified", "random", "time"])
def test_a_share_of_nothing_is_no_sequence(how):
    sequences = waves(20)
    for validation, test in ((0.0, 0.15), (0.15, 0.0), (0.0, 0.0)):
        parts = split(sequences, how, Shares(validation, test))
        assert bool(len(parts["validation"])) is bool(validation)
        assert bool(len(parts["test"])) is bool(test)
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(20))


def test_few_sequences_can_all_train():
    one = waves(2).chosen(np.array([0]))
    assert split(one, "random", Shares(0.0, 0.0))["train"].tolist() == [0]
    with pytest.raises(
        SequencesError, match="two sequences or more can be split to train and test"
    ):
        split(one, "random", Shares(0.0, 0.15))
    two = waves(2)
    with pytest.raises(SequencesError, match="no class has two sequences, so none is left to vali"):
        split(two, "stratified", Shares(0.15, 0.0))


def test_all_of_a_series_can_train():
    series = from_arrays([np.arange(12.0)])
    divided = Divided.of(series, {**FORECAST, "validation": 0.0, "test": 0.0})
    assert divided.parts["train"].limits.max() == 12
    assert divided.count("validation") == divided.count("test") == 0


def test_without_validation_the_last_weights_are_kept(tmp_path):
    options = {"steps": 4, "hidden_size": 4, "folder": tmp_path / "run", "progress": False}
    parts = {"validation": 0.0, "test": 0.0}
    record = train("sequences", "RDA", data=waves(10), **parts, **options)
    assert record.status.best_step is None
    assert record.status.test == {}
    options["folder"] = tmp_path / "other"
    with pytest.raises(ValueError, match="evaluate_every should be 0"):
        train("sequences", "RDA", data=waves(10), evaluate_every=2, **parts, **options)
