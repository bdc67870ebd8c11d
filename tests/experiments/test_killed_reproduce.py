"""A killed `rda reproduce` leaves no process behind, and the same command does what was left."""

import os
import sys
import time
from pathlib import Path

import forking
import pytest

from rda.analysis.inspection import INSPECTION
from rda.analysis.looking import keep_inspection
from rda.cli import main
from rda.experiments import catalogue, finishing
from rda.experiments.catalogue import Experiment
from rda.experiments.finishing import finish
from rda.settings import Limits, Recipe
from rda.tasks.addition import Addition
from rda.tasks.alternating import Alternating
from rda.training.derived import is_sealed
from rda.training.record import METRICS, Record, status_in
from rda.training.running import train
from rda.training.settings import RunSettings, default_name
from rda.training.thinning import thin

ENDLESS = 1_000_000
SECONDS = 120.0
"""Against hangs only."""


def runs(steps):
    """One whose unit is looked at when it has ended, and one that is only thinned."""
    recipe, limits = Recipe(hidden_size=8, batch_size=4), Limits(steps=steps, stop_at="never")
    return [
        RunSettings(task, "RWA", recipe, limits) for task in (Alternating(length=4), Addition(6))
    ]


def reproduce(folder, steps, *options):
    """`rda reproduce` with these runs in the place of the paper's; its exit code."""
    tiny = Experiment("table-1", "Table 1", tuple(runs(int(steps))))
    catalogue.experiments = lambda *given: {"table-1": tiny}
    usual = ("--device", "cpu", "--threads", "1", "--workers", "2", "--thin")
    return main(["reproduce", "table-1", *usual, "--runs-dir", str(folder), *options])


def in_a_process(folder, steps):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_killed_reproduce import reproduce\n"
        "sys.exit(reproduce(*sys.argv[1:]))\n"
    )
    return forking.start(["-c", code, folder, steps])


def wait_until(happened, command=None):
    give_up = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < give_up
        assert command is None or command.poll() is None
        time.sleep(0.02)


def processes_with(folder):
    """The processes that have the folder of runs on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(folder) in words:
            found.append(int(process.name))
    return found


def has_stepped(folder):
    metrics = folder / METRICS
    return metrics.exists() and metrics.stat().st_size > 0


@pytest.fixture
def experiments(monkeypatch):
    """Puts back what `reproduce` replaces in this process."""
    monkeypatch.setattr(catalogue, "experiments", catalogue.experiments)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_its_runs_save_and_end_with_it_and_the_same_command_goes_on(tmp_path, experiments):
    folder = tmp_path / "runs"
    command = in_a_process(folder, ENDLESS)
    wait_until(lambda: len(processes_with(folder)) == 2, command)
    command.kill()  # before they have begun
    wait_until(lambda: not processes_with(folder))

    command = in_a_process(folder, ENDLESS)
    names = [default_name(run) for run in runs(ENDLESS)]
    wait_until(lambda: all(has_stepped(folder / name) for name in names), command)
    command.kill()
    wait_until(lambda: not processes_with(folder))
    stopped = [status_in(folder / name) for name in names]
    assert [status.reason for status in stopped] == [f"SIGTERM at step {s.step}" for s in stopped]

    steps = max(status.step for status in stopped) + 5
    assert reproduce(folder, steps) == 0
    for name, run in zip(names, runs(steps), strict=True):
        whole = tmp_path / "whole" / name
        train(run, whole, device="cpu", threads=1)
        keep_inspection(whole)
        thin(whole)
        files = [METRICS, *([INSPECTION] if run.task.name == "alternating" else [])]
        assert [(folder / name / file).read_bytes() for file in files] == [
            (whole / file).read_bytes() for file in files
        ]
        assert status_in(folder / name).thinned


@pytest.fixture
def ended(tmp_path):
    """The folder of runs that have come to their end, and of which nothing else is done."""
    for run in runs(3):
        train(run, tmp_path / default_name(run), device="cpu", threads=1)
    return tmp_path


@pytest.mark.parametrize("where", [(), ("--on", "ray")], ids=["here", "cluster"])
def test_what_ended_without_it_is_inspected_and_thinned_at_the_next_start(
    ended, experiments, where
):
    assert reproduce(ended, 3, "--plan", *where) == 0
    first, second = (ended / default_name(run) for run in runs(3))
    assert not status_in(first).thinned  # a plan changes nothing
    assert reproduce(ended, 3, *where) == 0
    assert (first / INSPECTION).exists()
    assert not (second / INSPECTION).exists()
    assert all(status_in(folder).thinned for folder in (first, second))


def test_a_second_command_leaves_a_run_to_the_one_that_finishes_it(ended, monkeypatch):
    """It thinned the run while the first looked at its unit, whose weights were then gone."""
    folder = ended / default_name(runs(3)[0])

    def look_while_another_comes(seen):
        monkeypatch.setattr(finishing, "keep_inspection", keep_inspection)
        assert finish(seen, True) == ""
        keep_inspection(seen)

    monkeypatch.setattr(finishing, "keep_inspection", look_while_another_comes)
    assert finish(folder, True) == ""
    Record(folder).verify()
    assert status_in(folder).thinned
    assert is_sealed(folder, INSPECTION)


def test_an_ended_run_that_was_changed_is_one_line_and_not_0(ended, experiments, capsys):
    first, second = (ended / default_name(run) for run in runs(3))
    (first / METRICS).write_bytes((first / METRICS).read_bytes()[:-1])
    assert reproduce(ended, 3) == 1
    assert f"{first.name}: run {first.name} is not as it was when it ended" in (
        capsys.readouterr().out
    )
    assert status_in(second).thinned
