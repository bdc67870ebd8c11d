"""A thinned record is small, says what it was, and cannot be taken for one to continue."""

import shutil
import signal
from dataclasses import replace

import pytest
from tiny_runs import TINY_RUNS, run_once, with_steps

from rda.training import load, thinning
from rda.training.record import CHECKPOINTS, METRICS, MODEL, STATUS, TIMING, Record
from rda.training.running import train
from rda.training.status import RecordError

STEPS = 700
TINY = TINY_RUNS["wikipedia"]
RUN = with_steps(
    replace(TINY, recipe=replace(TINY.recipe, evaluate_every=70)), STEPS, stop_at="never"
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    run_once(folder, RUN)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def test_some_steps_stay_with_the_means_of_those_between_and_all_evaluations(whole, folder):
    thinning.thin(folder)
    before, after = Record(whole), Record(folder)
    after.verify()
    assert (after.status.thinned, after.status.sealed) == (True, True)
    assert after.settings == before.settings
    assert after.environment == before.environment
    steps, losses = before.curve("loss")
    few, kept = after.curve("loss")
    assert len(few) == thinning.STEPS_KEPT
    assert (few[0], few[-1]) == (1, STEPS)
    assert kept == [losses[step - 1] for step in few]
    _, means = after.curve("mean_loss")
    ends = [0, *few]
    for place, mean in enumerate(means):
        between = losses[ends[place] : ends[place + 1]]
        assert mean == pytest.approx(sum(between) / len(between), rel=1e-5)
    assert after.curve("validation_bits") == before.curve("validation_bits")
    assert not (folder / MODEL).exists()
    assert not (folder / CHECKPOINTS).exists()
    assert steps[-1] == STEPS


def test_the_step_of_the_goal_stays(tmp_path):
    settings = with_steps(TINY_RUNS["classify-length"], 400, stop_at="never")
    status = run_once(tmp_path / "run", settings)
    assert status.goal_step is not None
    thinning.thin(tmp_path / "run")
    record = Record(tmp_path / "run")
    assert record.status.goal_step == status.goal_step
    assert status.goal_step in record.curve("loss")[0]


def test_thinning_again_changes_nothing(folder):
    thinning.thin(folder)
    files = {path: path.read_bytes() for path in folder.iterdir()}
    thinning.thin(folder)
    assert files == {path: path.read_bytes() for path in folder.iterdir()}


def test_it_is_trained_no_further_unless_forced(folder):
    thinning.thin(folder)
    content = (folder / METRICS).read_bytes()
    assert train(RUN, folder, device="cpu").status.step == STEPS
    assert (folder / METRICS).read_bytes() == content
    with pytest.raises(RecordError, match="recorded without its weights"):
        load(folder)


def test_a_run_that_stopped_short_cannot_be_continued(tmp_path):
    settings = with_steps(TINY_RUNS["addition"], 3)
    run_once(tmp_path / "run", settings)
    thinning.thin(tmp_path / "run")
    assert train(settings, tmp_path / "run", device="cpu").status.step == 3
    with pytest.raises(RecordError, match="was thinned after step 3 and cannot be continued"):
        train(with_steps(settings, 5), tmp_path / "run", device="cpu")
    again = train(with_steps(settings, 5), tmp_path / "run", device="cpu", force=True)
    assert (again.status.step, again.status.thinned) == (5, False)


def test_a_run_that_has_not_ended_is_refused(tmp_path):
    run_once(tmp_path / "run", with_steps(TINY_RUNS["addition"], 3))
    status = (tmp_path / "run" / STATUS).read_text().replace("stopped", "interrupted")
    (tmp_path / "run" / STATUS).write_text(status)
    with pytest.raises(RecordError, match="only a run that ended is thinned"):
        thinning.thin(tmp_path / "run")


def test_a_kill_in_any_write_leaves_what_the_next_call_completes(whole, folder, monkeypatch):
    class Killed(BaseException):
        pass

    thinning.thin(folder)
    wanted = {name: (folder / name).read_bytes() for name in (METRICS, TIMING, STATUS)}
    original = thinning.write_atomically
    for deadly in range(1, 6):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        count = iter(range(1, 100))

        def write(path, content, count=count, deadly=deadly):
            if next(count) == deadly:
                raise Killed(signal.SIGKILL)
            original(path, content)

        with monkeypatch.context() as patched:
            for module in ("thinning", "record", "manifest"):
                patched.setattr(f"rda.training.{module}.write_atomically", write)
            with pytest.raises(Killed):
                thinning.thin(folder)
        thinning.thin(folder)
        Record(folder).verify()
        assert wanted == {name: (folder / name).read_bytes() for name in wanted}
