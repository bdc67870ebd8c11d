"""A run's folder belongs to one process and to its user: nothing else in it is touched."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tiny_runs import TINY_RUNS, run_once, with_steps

from rda.tasks import Source
from rda.training import checkpoint, load, running
from rda.training.locking import LOCK, RunLock, is_locked
from rda.training.manifest import MANIFEST
from rda.training.record import CHECKPOINTS, ENVIRONMENT, METRICS, MODEL, STATUS, Record
from rda.training.resources import NotEnoughMemoryError
from rda.training.run import Run
from rda.training.status import FINISHED, RecordError

RUN = with_steps(TINY_RUNS["addition"], 3, stop_at="never")


def test_removing_the_lock_file_lets_no_second_process_in(tmp_path):
    with Run(tmp_path / "run", RUN, Source(RUN.task, torch.device("cpu"))):
        (tmp_path / "run" / LOCK).unlink()
        assert is_locked(tmp_path / "run")
        with pytest.raises(RecordError, match="in use by another process"):
            run_once(tmp_path / "run", RUN)


def test_a_process_that_was_killed_holds_no_lock(tmp_path):
    (tmp_path / "run").mkdir()
    code = "import os, sys; from rda.training.locking import RunLock; from pathlib import Path; "
    code += "assert RunLock(Path(sys.argv[1])).held; os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    assert done.returncode == -9
    lock = RunLock(tmp_path / "run")
    assert lock.held
    lock.release()


def test_starting_over_that_cannot_remove_the_checkpoints_keeps_everything(tmp_path, monkeypatch):
    run_once(tmp_path / "run", RUN)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    unlink = Path.unlink

    def refuses(path, **options):
        if path.parent.name == CHECKPOINTS:
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refuses)
    with pytest.raises(RecordError, match=r"cannot write .*step-000000003.*: Permission denied"):
        run_once(tmp_path / "run", RUN, force=True)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in before} == before
    assert run_once(tmp_path / "run", RUN).state == FINISHED


def test_checkpoints_behind_a_link_are_used_and_started_over(tmp_path):
    elsewhere = tmp_path / "other-disk"
    elsewhere.mkdir()
    (elsewhere / "notes.txt").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f".{LOCK}").touch()
    run_once(tmp_path / "run", with_steps(RUN, 1))
    folder = tmp_path / "run" / CHECKPOINTS
    for path in folder.iterdir():
        path.rename(elsewhere / path.name)
    folder.rmdir()
    folder.symlink_to(elsewhere)
    assert run_once(tmp_path / "run", RUN).step == 3
    for _ in range(2):
        assert run_once(tmp_path / "run", RUN, force=True).state == FINISHED
    assert folder.is_symlink()
    assert (elsewhere / "notes.txt").read_text() == "precious"
    assert checkpoint.load_latest(elsewhere)[0].step == 3


REFUSED = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(REFUSED)])
def test_too_little_memory_leaves_no_run_behind(tmp_path, error):
    def prepare(stepper):
        def step():
            raise error

        stepper.step = step

    with pytest.raises(NotEnoughMemoryError, match="more memory than there is"):
        run_once(tmp_path / "run", RUN, prepare=prepare)
    assert not (tmp_path / "run").exists()


def test_too_little_memory_later_keeps_what_was_trained(tmp_path):
    run_once(tmp_path / "run", with_steps(RUN, 2))

    def prepare(stepper):
        def step():
            raise MemoryError

        stepper.step = step

    with pytest.raises(NotEnoughMemoryError):
        run_once(tmp_path / "run", RUN, prepare=prepare)
    assert Record(tmp_path / "run").curve("loss")[0] == [1, 2]
    assert run_once(tmp_path / "run", RUN).step == 3


def test_an_error_that_only_speaks_of_overflow_is_not_hidden(tmp_path):
    def prepare(stepper):
        def step():
            raise RuntimeError("integer overflow in a kernel")

        stepper.step = step

    with pytest.raises(RuntimeError, match="integer overflow"):
        run_once(tmp_path / "run", RUN, prepare=prepare)


def test_an_engine_that_cannot_serve_leaves_no_run_behind(tmp_path):
    from rda import EngineUnavailableError

    with pytest.raises(EngineUnavailableError, match="cuda"):
        running.train(RUN, tmp_path / "run", device="cpu", engine="cuda")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_before_is_not_removed(tmp_path):
    (tmp_path / "run").mkdir()

    def prepare(stepper):
        def step():
            raise MemoryError

        stepper.step = step

    (tmp_path / "run" / ".hidden").write_text("precious")
    with pytest.raises(NotEnoughMemoryError):
        run_once(tmp_path / "run", RUN, prepare=prepare)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".hidden"]


def test_metrics_are_not_world_writable(tmp_path):
    run_once(tmp_path / "run", RUN)
    assert not os.stat(tmp_path / "run" / METRICS).st_mode & 0o002


def test_a_run_of_somebody_else_writes_to_no_file_of_mine(tmp_path):
    run = tmp_path / "run"
    run_once(run, with_steps(RUN, 2))
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in (LOCK, METRICS):
        content = (run / name).read_bytes()
        (run / name).unlink()
        (run / name).symlink_to(mine)
        with pytest.raises(RecordError, match=rf"cannot write .*{name}: it is a link"):
            run_once(run, RUN)
        assert mine.read_text() == "precious"
        (run / name).unlink()
        (run / name).write_bytes(content)
    assert run_once(run, RUN).step == 3


@pytest.mark.parametrize("name", [LOCK, METRICS, STATUS, ENVIRONMENT, MODEL, MANIFEST])
def test_a_pipe_in_a_run_of_somebody_else_is_not_waited_for(tmp_path, name):
    run = tmp_path / "run"
    run_once(run, RUN)
    (run / name).unlink()
    os.mkfifo(run / name)
    with suppress(RecordError, UserWarning):
        load(run)
    if name != LOCK:
        with pytest.raises(RecordError, match=name):
            Record(run).verify()
    with suppress(RecordError):
        assert run_once(run, with_steps(RUN, 4)).step == 4
