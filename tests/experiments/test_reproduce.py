"""rda reproduce: many runs, each in its own process; stopped and continued."""

import hashlib
import io
import os
import re
import signal
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import forking
import pytest
from fake_paper import write_paper
from rich.console import Console

from rda.cli import main
from rda.data.catalogue import DATASETS, Dataset, File
from rda.experiments import catalogue, sharing
from rda.experiments.catalogue import Experiment
from rda.experiments.plan import make_plan
from rda.experiments.schedule import Schedule, Working
from rda.experiments.sharing import Sharing, shared_gpu
from rda.experiments.watching import Board
from rda.labels import COMPARED
from rda.scan.cuda.onchip import SHARED
from rda.settings import Limits, Recipe
from rda.tasks.addition import Addition
from rda.training.locking import RunLock
from rda.training.record import METRICS, Record, write_settings
from rda.training.running import train
from rda.training.settings import RunSettings, default_name, full_settings


def runs(count, steps=5, stop_at="never"):
    return [
        RunSettings(
            Addition(length=6),
            "RDA-exp-tanh",
            Recipe(hidden_size=8, batch_size=4, seed=seed),
            Limits(steps=steps, stop_at=stop_at),
        )
        for seed in range(count)
    ]


class Told:
    """Remembers how runs ended, and can act when one is looked at."""

    def __init__(self, act=lambda working: None):
        self.states = {}
        self.lines = []
        self.most = 0
        self.act = act

    def looked(self, working, waiting):
        self.most = max(self.most, len(working))
        self.act(working)

    def ended(self, one):
        self.states[one.run.name] = (one.status.state if one.status else None, one.said)

    def say(self, line):
        self.lines.append(line)


def has_stepped(folder, one):
    metrics = folder / one.run.name / METRICS
    return metrics.exists() and metrics.stat().st_size > 0


def schedule(folder, settings, workers=2, **options):
    plan = make_plan({default_name(run): run for run in settings}, folder)
    queue = [run for run in plan if run.missing]
    line = ["--threads", "1", "--device", "cpu"]
    return Schedule(queue, folder, Sharing(workers, 1.0, {}, ""), line, **options)


def test_all_runs_are_trained_some_at_a_time_and_their_commands_repeat_them(tmp_path):
    told = Told()
    assert schedule(tmp_path, runs(2), thinned=True).work(told) is None
    assert [state for state, _ in told.states.values()] == ["finished"] * 2
    assert told.most == 2
    record = Record(tmp_path / default_name(runs(2)[1]))
    assert record.status.thinned
    assert record.environment[-1]["runs_at_once"] == 2
    expected = f"rda train addition RDA-exp-tanh --length 6 .* --runs-dir {tmp_path}"
    assert re.match(expected, record.command)


def test_at_the_end_of_the_budget_everything_is_saved_and_goes_on_as_if_nothing_was(tmp_path):
    settings = runs(1, steps=400)
    started = []

    def stop_once_all_have_begun(working):
        if working and all(has_stepped(tmp_path / "parts", one) for one in working):
            started.append(True)

    first = schedule(
        tmp_path / "parts", settings, clock=lambda: 1.0 if started else 0.0, deadline=1.0
    )
    told = Told(stop_once_all_have_begun)
    assert first.work(told) == "budget"
    assert {state for state, _ in told.states.values()} <= {"interrupted", "finished"}
    plan = make_plan({default_name(run): run for run in settings}, tmp_path / "parts")
    assert all(run.begun or run.done for run in plan)
    assert schedule(tmp_path / "parts", settings).work(Told()) is None
    for run in settings:
        train(run, tmp_path / "whole", device="cpu", threads=1, force=True)
        content = (tmp_path / "parts" / default_name(run) / METRICS).read_bytes()
        assert content == (tmp_path / "whole" / METRICS).read_bytes()


@pytest.mark.parametrize(("code", "failed"), [(130, 0), (1, 1)])
def test_a_run_that_is_stopped_while_it_starts_has_not_failed(tmp_path, code, failed):
    work = schedule(tmp_path, runs(1))
    run = work.queue.pop()
    console = Console(file=io.StringIO())
    board = Board(console, [run], lambda settings: 1.0, float("inf"))
    output = io.BytesIO(b"rda: as told")
    process = SimpleNamespace(returncode=code, poll=lambda: code, stdin=None)
    work.working.append(Working(run, process, output))
    assert work.work(board) is None
    assert board.failed == failed
    assert f"{run.name}: rda: as told" in console.file.getvalue()


def test_ctrl_c_saves_and_says_so(tmp_path):
    told = Told(
        lambda working: (
            any(has_stepped(tmp_path, one) for one in working)
            and os.kill(os.getpid(), signal.SIGINT)
        )
    )
    work = schedule(tmp_path, runs(1, steps=1_000_000))
    assert work.work(told) == "SIGINT"
    assert [state for state, _ in told.states.values()] == ["interrupted"]


@pytest.fixture
def taken(tmp_path):
    """The settings of a run, and the lock of its folder as another process would hold it."""
    (settings,) = runs(1)
    folder = tmp_path / default_name(settings)

    def take():
        folder.mkdir()
        write_settings(folder, settings)
        return RunLock(folder)

    return settings, take


def test_a_run_that_another_process_trains_is_waited_for(tmp_path, taken):
    settings, take = taken
    lock = take()
    (run,) = make_plan({default_name(settings): settings}, tmp_path)
    assert run.busy

    def end(working):
        assert not working
        lock.release()
        train(settings, tmp_path / run.name, device="cpu", threads=1)

    told = Told(end)
    work = schedule(tmp_path, [settings], thinned=True)
    work.wait_for(run, told)
    assert work.work(told) is None
    assert told.lines == [f"{run.name} is trained by another process"]
    assert told.states == {run.name: ("finished", "all 5 steps done")}
    assert Record(tmp_path / run.name).status.thinned


def test_a_run_that_another_process_took_first_is_done_when_that_leaves_it(tmp_path, taken):
    settings, take = taken
    work = schedule(tmp_path, [settings])
    lock = take()
    told = Told(lambda working: not working and lock.release())
    assert work.work(told) is None
    assert told.lines == [f"{default_name(settings)} is trained by another process"]
    assert [state for state, _ in told.states.values()] == ["finished"]


def test_a_run_that_fills_the_device_is_trained_alone(tmp_path, monkeypatch):
    """Processes that end at once stand for those of the runs; they remember what was beside."""
    shares = []

    class Ended:
        returncode, stdin = 0, None

        def __init__(self, line, env, **options):
            shares.append((line[line.index("train") + 1], env["RDA_RUNS_AT_ONCE"]))

        def poll(self):
            return self.returncode

    monkeypatch.setattr("rda.experiments.schedule.subprocess.Popen", Ended)
    large = [full_settings("wikipedia", unit) for unit in ("RWA", "GRU")]
    together = []
    told = Told(lambda working: together.append({one.run.settings.task.name for one in working}))
    assert schedule(tmp_path, [large[0], *runs(2), large[1]]).work(told) is None
    assert told.most == 2
    assert together[:3] == [{"wikipedia"}, {"addition"}, {"wikipedia"}]
    assert shares == [("wikipedia", "1"), ("addition", "2"), ("addition", "2"), ("wikipedia", "1")]


def test_a_run_that_cannot_start_is_told_with_its_reason(tmp_path):
    work = schedule(tmp_path, runs(1))
    work.options = ["--device", "cuda:99"]
    told = Told()
    assert work.work(told) is None
    ((state, said),) = told.states.values()
    assert state is None
    assert "cuda:99" in said


class TestCommand:
    @pytest.fixture(autouse=True)
    def _tiny(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("RDA_RUNS", raising=False)
        tiny = Experiment("table-1", "Table 1", tuple(runs(2, steps=3)))
        monkeypatch.setattr(catalogue, "experiments", lambda *given: {"table-1": tiny})

    def test_it_says_what_is_missing_trains_it_and_has_nothing_left(self, capsys):
        line = ["reproduce", "table-1", "--device", "cpu"]
        assert main([*line, "--plan"]) == 0
        assert "2 runs to train" in capsys.readouterr().out
        assert main(line) == 0
        told = capsys.readouterr().out
        assert "2 of 2 runs have ended" in told
        assert told.count("finished, all 3 steps done") == 2
        assert main(line) == 0
        assert "0 runs to train" in capsys.readouterr().out

    def test_runs_have_as_many_threads_as_asked_for(self, capsys, monkeypatch):
        set_to = []
        monkeypatch.setattr("torch.set_num_threads", set_to.append)
        line = ["reproduce", "table-1", "--device", "cpu"]
        assert main([*line, "--threads", "-1"]) == 2
        assert "threads should be 0 or more" in capsys.readouterr().err
        assert main([*line, "--threads", "1"]) == 0
        assert set_to == [1]
        records = [Record(folder) for folder in Path("runs").iterdir() if folder.is_dir()]
        starts = [start for record in records for start in record.environment]
        assert [start["threads"] for start in starts] == [1, 1]

    def test_a_budget_that_is_spent_is_exit_code_3(self, capsys):
        line = ["reproduce", "table-1", "--device", "cpu", "--budget", "0.0001"]
        assert main(line) == 3
        assert "the same command goes on" in capsys.readouterr().out

    def test_without_a_gpu_the_small_twins_are_offered(self, capsys, monkeypatch):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        assert main(["reproduce", "table-1"]) == 2
        assert "--small" in capsys.readouterr().err

    def test_without_a_gpu_the_plan_counts_and_knows_no_cost(self, capsys, monkeypatch):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        assert main(["reproduce", "table-1", "--plan"]) == 0
        told = capsys.readouterr().out
        assert "2 runs to train. There is no GPU here" in told
        assert "time" not in told.splitlines()[0]

    def test_a_folder_that_is_not_there_is_said_and_not_judged(self, capsys):
        assert main(["reproduce", "--check", "--runs-dir", "nowhere"]) == 2
        assert "there is no folder nowhere" in capsys.readouterr().err

    def test_a_check_is_of_all_claims(self, capsys):
        assert main(["reproduce", "table-7", "--check"]) == 2
        assert "every claim of the paper: leave table-7 away" in capsys.readouterr().err
        assert main(["reproduce", "--check", "--units", "GRU"]) == 2
        assert "every claim of the paper: leave --units away" in capsys.readouterr().err

    def test_an_experiment_is_needed_and_a_wrong_one_is_named(self, capsys):
        assert main(["reproduce"]) == 2
        assert "table-1" in capsys.readouterr().err
        assert main(["reproduce", "table-9", "--device", "cpu"]) == 2
        assert "Did you mean 'table-1'" in capsys.readouterr().err


class TestWikipedia:
    @pytest.fixture
    def line(self, tmp_path, monkeypatch):
        """Table 7's small twins on a text that is small too, with all data where it is told."""
        text = b"Predict the next character of this line.\n" * 500
        file = File("enwik8", len(text), hashlib.sha256(text).hexdigest(), ())
        monkeypatch.setitem(DATASETS, "enwik8", Dataset("enwik8", "a text", (file,)))
        monkeypatch.setenv("RDA_DATA", str(tmp_path / "nothing"))
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "enwik8").write_bytes(text)
        line = ["reproduce", "table-7", "--small", "--seeds", "1", "--device", "cpu"]
        return [*line, "--runs-dir", str(tmp_path / "runs"), "--data-dir", str(tmp_path / "data")]

    def test_the_plan_counts_steps_and_workers_read_the_text_themselves(
        self, line, tmp_path, monkeypatch, capsys
    ):
        told = []
        monkeypatch.setattr(Schedule, "work", lambda work, board: told.append(work))
        monkeypatch.setattr("rda.experiments.speed.measure", lambda *given: 0.1 if given[2] else 0)
        assert main(line) == 0
        assert "5 runs to train, about 0:04:10 on" in capsys.readouterr().out  # 5 x 500 steps
        (work,) = told
        assert [run.settings.unit for run in work.queue] == sorted(COMPARED)
        assert work.options[-2:] == ["--data-dir", str(tmp_path / "data")]

    def test_without_the_text_it_says_where_it_looked(self, line, tmp_path, capsys):
        assert main([*line[:-1], str(tmp_path / "nowhere")]) == 2
        assert "enwik8" in capsys.readouterr().err

    def test_runs_that_are_done_need_no_text(self, tmp_path, monkeypatch, capsys):
        write_paper(tmp_path / "runs", ["table-7"])
        monkeypatch.setenv("RDA_DATA", str(tmp_path / "nothing"))
        line = ["reproduce", "table-7", "--device", "cpu", "--runs-dir", str(tmp_path / "runs")]
        assert main([*line, "--plan"]) == 0
        assert "0 runs to train" in capsys.readouterr().out


class TestSharing:
    def daemon(self, folder, code):
        """A program in the place of NVIDIA's, which writes down how it was called."""
        program = folder / sharing.DAEMON
        program.write_text(
            f"#!{sys.executable}\nimport os, sys\n"
            f"with open({str(folder / 'calls')!r}, 'a') as calls:\n"
            "    print(*sys.argv[1:], sys.stdin.read().strip() if not sys.argv[1:] else '',"
            " os.path.isdir(os.environ['CUDA_MPS_PIPE_DIRECTORY']), file=calls)\n"
            f"sys.exit({code})\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)

    def test_the_service_is_started_and_ended(self, tmp_path):
        self.daemon(tmp_path, 0)
        with shared_gpu() as found:
            assert found.workers == sharing.WORKERS
            assert found.gain == sharing.GAIN
            service = {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}
            assert set(found.environment) == {*service, SHARED}
        calls = (tmp_path / "calls").read_text().splitlines()
        assert [call.split() for call in calls] == [["-d", "True"], ["quit", "True"]]

    def test_it_is_ended_too_where_the_command_is_killed(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.defpath]))
        self.daemon(tmp_path, 0)
        code = (
            "import os\nfrom rda.experiments.sharing import shared_gpu\n"
            "with shared_gpu() as found:\n"
            "    print(found.environment['CUDA_MPS_PIPE_DIRECTORY'], flush=True)\n"
            "    os.kill(os.getpid(), 9)\n"
        )
        _, said, _ = forking.run(["-c", code])
        folder = Path(said.strip()).parent
        assert folder.name.startswith("rda-mps-")
        give_up = time.monotonic() + 120.0  # against hangs only
        while folder.exists():  # it goes last
            assert time.monotonic() < give_up
            time.sleep(0.02)
        calls = (tmp_path / "calls").read_text().splitlines()
        assert [call.split() for call in calls] == [["-d", "True"], ["quit", "True"]]

    def test_a_run_that_fills_the_gpu_gains_nothing(self):
        found = Sharing(4, 1.5, {}, "")
        assert found.gain_for(full_settings("copy", "RWA")) == 1.5
        assert found.gain_for(full_settings("wikipedia", "RWA")) == 1.0

    def test_a_service_that_does_not_start_is_done_without(self, tmp_path):
        self.daemon(tmp_path, 1)
        with shared_gpu() as found:
            assert (found.workers, found.gain) == (1, 1.0)
            assert "did not start" in found.note
        with shared_gpu(3) as found:
            assert found.workers == 3

    def test_so_is_one_that_is_not_there(self):
        with shared_gpu() as found:
            assert f"there is no {sharing.DAEMON}" in found.note

    def test_one_that_runs_already_is_used(self, monkeypatch):
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
        with shared_gpu(2) as found:
            assert (found.workers, found.environment) == (2, {SHARED: "1"})
        with shared_gpu(1) as found:
            assert found.environment == {}
