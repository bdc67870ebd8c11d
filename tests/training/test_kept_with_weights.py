"""What commands keep beside a run is of its weights and as it was written, or it is not used."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from made_data import waves
from tiny_runs import TINY_RUNS, run_once, with_steps

from rda.sequences.dataset import from_arrays
from rda.sequences.stored import hold
from rda.training import running
from rda.training.derived import keep, kept
from rda.training.intervals import intervals_of, read_intervals
from rda.training.outcomes import outcomes_of
from rda.training.record import (
    DERIVED,
    INSPECTION,
    INTERVALS,
    MODEL,
    OUTCOMES,
    PICTURES,
    Record,
)
from rda.training.run import Run
from rda.training.settings import settings_for
from rda.training.status import RecordError
from rda.training.thinning import thin

RUN = with_steps(TINY_RUNS["addition"], 2, stop_at="never")
SERIES = from_arrays([np.sin(np.arange(80.0) / 2)])


def trained(folder, sequences, **changes):
    changes = {"data": hold(sequences), "steps": 4, "hidden_size": 4, **changes}
    return running.train(settings_for("sequences", "GRU", False, changes), folder, device="cpu")


@pytest.fixture
def forecast(tmp_path):
    return trained(tmp_path / "run", SERIES, horizon=2, window=20)


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("starting_over", [True, False])
def test_a_run_that_is_trained_again_keeps_nothing_of_its_former_weights(tmp_path, starting_over):
    run_once(tmp_path / "run", RUN)
    for name in (*DERIVED, *PICTURES):
        (tmp_path / "run" / name).write_text("of other weights")
    run_once(tmp_path / "run", RUN if starting_over else with_steps(RUN, 3), force=starting_over)
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not left & set(DERIVED)
    assert bool(left & set(PICTURES)) != starting_over


def test_starting_over_on_a_cluster_empties_the_folder_too(tmp_path):
    run_once(tmp_path / "run", RUN)
    keep(tmp_path / "run", INTERVALS, {"margins": [[1.0]]})
    with Run(tmp_path / "run", RUN, SimpleNamespace(task=RUN.task, facts=dict), force=True):
        assert not (tmp_path / "run" / INTERVALS).exists()


def test_what_was_kept_is_read_until_it_or_the_weights_change(tmp_path):
    run_once(tmp_path / "run", RUN)
    folder = tmp_path / "run"
    assert kept(folder, INTERVALS) is None
    path = keep(folder, INTERVALS, {"margins": [[0.1, float("inf")]]})
    found = kept(folder, INTERVALS)
    assert found.sealed
    assert found.content == {"margins": [[0.1, float("inf")]]}
    rewrite(path, margins=[[100.0, float("inf")]])
    with pytest.raises(RecordError, match=r"intervals\.json is not as it was written"):
        kept(folder, INTERVALS)
    keep(folder, INTERVALS, {})
    (folder / MODEL).write_bytes(b"others")
    with pytest.raises(RecordError, match="of other weights than those of the run"):
        kept(folder, INTERVALS)


def test_intervals_that_were_changed_are_found_anew(forecast):
    margins = intervals_of(forecast)
    assert read_intervals(forecast).sealed
    path = forecast.folder / INTERVALS
    rewrite(path, margins=(1000 * margins).tolist())
    with pytest.raises(RecordError, match="not as it was written"):
        read_intervals(forecast)
    np.testing.assert_array_equal(intervals_of(forecast), margins)
    assert read_intervals(forecast).sealed


def unsealed(forecast, **changes):
    """Intervals as earlier versions left them, with changes."""
    content = {"step": forecast.status.best_step, "level": 0.9, "margins": [[1.0], [2.0]]}
    (forecast.folder / INTERVALS).write_text(json.dumps({**content, **changes}))


def test_intervals_of_earlier_versions_are_read_and_called_unsealed(forecast):
    unsealed(forecast)
    found = read_intervals(forecast)
    assert found.margins.tolist() == [[1.0], [2.0]]
    assert not found.sealed
    unsealed(forecast, step=forecast.status.best_step + 1)
    with pytest.raises(RecordError, match="of other weights"):
        read_intervals(forecast)


@pytest.mark.parametrize(
    "margins",
    [
        None, [], {}, "1", [[]], [1.0, 2.0], [[1.0], [2.0, 3.0]], [[-1.0], [2.0]], [["1"], ["2"]],
        [[None], [1.0]], [[True], [1.0]], [[float("nan")], [1.0]], [[[1.0]], [[2.0]]],
    ],
)  # fmt: skip
def test_margins_that_are_none_are_one_line(forecast, margins):
    unsealed(forecast, margins=margins)
    with pytest.raises(RecordError, match="margins should be rows of numbers from 0") as raised:
        read_intervals(forecast)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "1", "null", "[" * 5000, '"x"'])
@pytest.mark.parametrize("name", DERIVED)
def test_a_file_that_is_something_else_is_one_line(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(RecordError, match=f"{name} cannot be read: "):
        kept(tmp_path, name)


def test_outcomes_that_were_changed_or_are_unsealed_are_answered_anew(tmp_path):
    record = trained(tmp_path / "run", waves(40))
    first = outcomes_of(record)
    path = record.folder / OUTCOMES
    for changes in ({"predicted": first.true.tolist()}, {"piece": "x"}):
        rewrite(path, **changes)
        for one, other in zip(outcomes_of(record), first, strict=True):
            np.testing.assert_array_equal(one, other)
        assert kept(record.folder, OUTCOMES).sealed
    unsealed = {"step": record.status.best_step, "true": [1.0], "predicted": [1.0], "piece": [0]}
    path.write_text(json.dumps(unsealed))
    assert len(outcomes_of(record).true) == len(first.true)


def test_outcomes_of_a_thinned_run_are_all_that_there_is(tmp_path):
    record = trained(tmp_path / "run", waves(40))
    outcomes_of(record)
    thin(record.folder)
    assert len(outcomes_of(Record(record.folder)).true) == 6
    path = record.folder / OUTCOMES
    path.write_text(json.dumps({"true": [1.0], "predicted": [1.0], "piece": [0]}))
    assert outcomes_of(Record(record.folder)).true.tolist() == [1.0]
    for changes in ({"true": "x"}, {"piece": [-1]}, {"piece": [0, 1]}, {"predicted": [None]}):
        path.write_text(json.dumps({"true": [1.0], "predicted": [1.0], "piece": [0], **changes}))
        with pytest.raises(RecordError, match=r"outcomes\.json cannot be read: it should be lists"):
            outcomes_of(Record(record.folder))


def test_the_manifest_of_a_thinned_run_holds_what_was_kept_with_it(tmp_path):
    run_once(tmp_path / "run", RUN)
    keep(tmp_path / "run", INSPECTION, {"task": "addition"})
    thin(tmp_path / "run")
    assert Record(tmp_path / "run").damaged() == []
    (tmp_path / "run" / INSPECTION).write_text("{}")
    assert Record(tmp_path / "run").damaged() == [INSPECTION]
