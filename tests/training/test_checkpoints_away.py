"""Checkpoints on another disk may be away for a while: what was recorded is never destroyed."""

import json
import shutil
from pathlib import Path

import forking
import pytest
from test_loop import assert_same_run
from tiny_runs import TINY_RUNS, Silent, run_once, with_steps

from rda.training import load
from rda.training.record import CHECKPOINTS, MANIFEST, METRICS, MODEL, STATUS, Record
from rda.training.status import FINISHED, STOPPED, RecordError

TINY = TINY_RUNS["multicopy"]
WHOLE = with_steps(TINY, 6, stop_at="never")
HERE = Path(__file__).parent


def missing(folder):
    pass


def an_empty_mount_point(folder):
    folder.mkdir()


def a_dangling_link(folder):
    folder.symlink_to(folder.parent.parent / "other-disk")


def no_folder(folder):
    folder.write_text("")


@pytest.fixture(params=[missing, an_empty_mount_point, a_dangling_link, no_folder])
def takes_the_place(request):
    return request.param


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def unplug(run):
    """The run's checkpoints are somewhere else now; returns where."""
    return shutil.move(run / CHECKPOINTS, run.with_name(f"{run.name}-checkpoints"))


def plug_in(run, elsewhere):
    place = run / CHECKPOINTS
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    shutil.move(elsewhere, place)


class DiesAfter(Silent):
    """Ends the process as a kill would, once a step is recorded and not saved yet."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def stepped(self, step, row, seconds):
        if step == self.last:
            raise SystemExit


def killed_after(folder, steps):
    with pytest.raises(SystemExit):
        run_once(folder, WHOLE, checkpoint_seconds=0.0, listener=DiesAfter(steps))
    assert Record(folder).status.state == "killed"


def test_an_unfinished_run_whose_checkpoints_are_away_is_not_begun_again(tmp_path, takes_the_place):
    run = tmp_path / "run"
    killed_after(run, 4)
    elsewhere = unplug(run)
    takes_the_place(run / CHECKPOINTS)
    before = contents(run)
    with pytest.raises(RecordError, match=r"^[^\n]*checkpoints[^\n]*$"):
        run_once(run, WHOLE)
    assert contents(run) == before
    plug_in(run, elsewhere)
    assert run_once(run, WHOLE).state == FINISHED
    run_once(tmp_path / "whole", WHOLE)
    assert_same_run(run, tmp_path / "whole")


def test_the_line_says_which_checkpoint_is_missing_and_force_starts_over(tmp_path):
    run = tmp_path / "run"
    killed_after(run, 4)
    unplug(run)
    with pytest.raises(RecordError, match=r"saved at step 3.*another disk.*--force starts"):
        run_once(run, WHOLE)
    assert run_once(run, WHOLE, force=True).state == FINISHED


def test_starting_over_waits_for_the_disk_that_its_link_leads_to(tmp_path):
    run = tmp_path / "run"
    killed_after(run, 4)
    unplug(run)
    a_dangling_link(run / CHECKPOINTS)
    before = contents(run)
    with pytest.raises(RecordError, match=r"leads to .*other-disk, which is not there"):
        run_once(run, WHOLE, force=True)
    assert contents(run) == before


def test_a_run_whose_status_and_checkpoints_are_gone_keeps_its_metrics(tmp_path):
    run = tmp_path / "run"
    run_once(run, WHOLE)
    unplug(run)
    (run / STATUS).unlink()
    before = contents(run)
    with pytest.raises(RecordError, match=r"lost its status\.json.*another disk.*--force starts"):
        run_once(run, WHOLE)
    assert contents(run) == before


def test_a_run_whose_checkpoints_have_lost_their_checksums_keeps_its_metrics(tmp_path):
    run = tmp_path / "run"
    killed_after(run, 4)
    checksums = list((run / CHECKPOINTS).glob("*.sha256"))
    assert len(checksums) == 2
    for path in checksums:
        path.unlink()
    before = contents(run)
    with pytest.raises(RecordError, match="no checkpoint that can be used"):
        run_once(run, WHOLE)
    assert contents(run) == before


@pytest.mark.parametrize("version", ["this", "an older"])
def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path, version):
    run = tmp_path / "run"
    killed_after(run, 4)
    unplug(run)
    status = json.loads((run / STATUS).read_text())
    assert status.pop("saved_step") == 3
    if version == "this":
        status["saved_step"] = None
    (run / STATUS).write_text(json.dumps(status))
    listener = Silent()
    assert run_once(run, WHOLE, listener=listener).state == FINISHED
    assert listener.said == ["no checkpoint was finished before it stopped: beginning again"]
    run_once(tmp_path / "whole", WHOLE)
    assert_same_run(run, tmp_path / "whole")


class TestRemovedToSaveRoom:
    @pytest.fixture
    def run(self, tmp_path):
        run = tmp_path / "run"
        run_once(run, WHOLE)
        shutil.rmtree(run / CHECKPOINTS)
        return run

    def test_a_finished_run_is_whole_without_its_checkpoints(self, run):
        before = contents(run)
        assert run_once(run, WHOLE).state == FINISHED
        assert run_once(run, with_steps(TINY, 4, stop_at="never")).step == 6
        assert contents(run) == before
        assert load(run).record.status.step == 6

    def test_the_same_is_true_of_a_run_of_an_older_version(self, run):
        status = json.loads((run / STATUS).read_text())
        old = {name: status[name] for name in status if name not in ("saved_step", "sealed")}
        (run / STATUS).write_text(json.dumps(old))
        (run / MANIFEST).unlink()
        before = contents(run)
        assert run_once(run, WHOLE).state == FINISHED
        assert contents(run) == before

    def test_it_cannot_be_continued_and_one_line_says_so(self, run):
        before = contents(run)
        longer = with_steps(TINY, 8, stop_at="never")
        with pytest.raises(RecordError, match=r"checkpoints are gone.* step 6 .*--force trains it"):
            run_once(run, longer)
        assert contents(run) == before
        assert run_once(run, longer, force=True).step == 8

    def test_a_stopped_run_stays_stopped(self, tmp_path):
        tiny = TINY_RUNS["addition"]
        run_once(tmp_path / "run", with_steps(tiny, 3))
        shutil.rmtree(tmp_path / "run" / CHECKPOINTS)
        before = contents(tmp_path / "run")
        assert run_once(tmp_path / "run", with_steps(tiny, 3)).state == STOPPED
        with pytest.raises(RecordError, match="cannot be continued"):
            run_once(tmp_path / "run", with_steps(tiny, 4))
        assert contents(tmp_path / "run") == before

    @pytest.mark.parametrize("name", [MODEL, METRICS, STATUS])
    def test_what_is_damaged_as_well_is_refused_and_not_trained_again(self, run, name):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[:-1])
        before = contents(run)
        with pytest.raises(RecordError, match="--force"):
            run_once(run, WHOLE)
        assert contents(run) == before


def test_killed_in_every_write_and_then_without_its_checkpoints(tmp_path):
    """Whatever the moment of the kill, a run with a checkpoint that counts is not begun again."""
    name, steps = "multicopy", 2
    run_once(tmp_path / "whole", with_steps(TINY_RUNS[name], steps, stop_at="never"))
    arguments = ["killing.py", tmp_path, name, str(steps), "away"]
    code, said, complaints = forking.run(arguments, HERE)
    assert code == 0, complaints
    killed, refused = map(int, said.split())
    assert 10 < refused < killed
    for number in range(1, killed + 1):
        assert_same_run(tmp_path / "whole", tmp_path / str(number))
