"""The command line: what a person types, what they get, and the exit code."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

import forking
import pytest

import rda
from rda.cli import COMMANDS, build_parser, main
from rda.labels import COMPARED, UNIT_LABELS
from rda.tasks import all_tasks
from rda.training.record import METRICS, SETTINGS, Record

TASKS = list(all_tasks())

TINY = [
    "--copies", "2", "--symbols", "2", "--alphabet", "3", "--hidden-size", "8",
    "--batch-size", "4",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RDA_RUNS", raising=False)
    monkeypatch.delenv("RDA_DATA", raising=False)


def train(*more, unit="GRU"):
    return main(["train", "multicopy", unit, *TINY, *more])


def complaint(capsys):
    told = capsys.readouterr().err
    assert told.startswith("rda: ")
    assert told.count("\n") == 1
    return told


class TestHelp:
    @pytest.mark.parametrize(
        "line",
        [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
        + [["train", task, "--help"] for task in TASKS]
        + [["compare", "copy", "--help"], ["train", "copy", "RWA", "--small", "--help"]],
        ids=" ".join,
    )
    def test_it_answers_without_loading_torch(self, line):
        code = (
            "import sys; from rda.cli import main; code = main(sys.argv[1:]); "
            "assert 'torch' not in sys.modules; sys.exit(code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *line], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert not done.stderr

    def test_it_teaches_with_examples_that_are_understood(self, capsys):
        """Every example line of every help resolves to a task, units and options."""
        for line in (["--help"], ["train", "--help"], ["compare", "--help"], ["data", "--help"]):
            assert main(line) == 0
        examples = re.findall(
            r"^  rda ((?:train|compare) .*?)(?:   .*)?$", capsys.readouterr().out, re.M
        )
        kept = [words for words in map(str.split, examples) if words[1] in TASKS]
        assert len(kept) >= 8
        for words in kept:
            build_parser(words).parse(words, Namespace(start=None))

    def test_nothing_at_all_shows_the_help_and_is_not_understood(self, capsys):
        assert main([]) == 2
        assert "usage: rda COMMAND" in capsys.readouterr().out

    def test_every_task_setting_is_explained(self, capsys):
        for name in TASKS:
            main(["train", name, "--help"])
            told = " ".join(capsys.readouterr().out.split())
            bare = re.findall(r"--[\w-]+ [A-Z|a-z0-9]+ \((?:default|full)", told)
            assert not bare, bare


class TestNames:
    @pytest.mark.parametrize(
        ("line", "hint"),
        [
            (["trian", "copy", "RWA"], "'train'"),
            (["train", "multicpy", "RWA"], "'multicopy'"),
            (["train", "copy", "RDA-exp-tahn"], "'RDA-exp-tanh'"),
            (["train", "copy", "lstm"], "'LSTM'"),
            (["train", "copy", "RWA", "--hiden-size", "3"], "'--hidden-size'"),
            (["train", "copy", "RWA", "--engine", "cup"], "'cpu'"),
            (["compare", "copy", "RWA", "GRUU"], "'GRU'"),
            (["data", "fetc"], "'fetch'"),
            (["data", "fetch", "mnst"], "'mnist'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_a_wrong_name_gets_the_nearest_right_one(self, line, hint, capsys):
        assert main(line) == 2
        assert f"Did you mean {hint}?" in complaint(capsys)

    @pytest.mark.parametrize(
        "name", ["--num-layers", "--bidirectional", "--optimizer", "--iterations", "--verbose"]
    )
    def test_a_name_that_is_like_no_other_gets_no_hint(self, name, capsys):
        assert main(["train", "copy", "RWA", name, "3"]) == 2
        told = complaint(capsys)
        assert f"unknown option '{name}'" in told
        assert "Did you mean" not in told

    def test_a_wrong_run_gets_the_nearest_right_one(self, capsys):
        train("--steps", "1", "--name", "first")
        capsys.readouterr()
        assert main(["show", "frist"]) == 2
        assert "Did you mean 'first'?" in complaint(capsys)

    @pytest.mark.parametrize(
        "name", ["../x", "a/b", "/etc", "..", ".hidden", "a\\b", "", "-x", "a\nb", "x" * 101, "<b>"]
    )
    def test_a_run_name_cannot_lead_out_of_its_folder(self, name, capsys, tmp_path):
        if name == "":
            return  # the same as none
        assert train("--steps", "1", f"--name={name}") == 2
        assert "run name" in complaint(capsys)
        assert list(tmp_path.iterdir()) == []

    def test_other_sizes_get_another_default_name(self):
        train("--steps", "1")
        train("--steps", "1", "--seed", "3")
        train("--steps", "1", "--clip", "0.5")
        assert len(list(Path("runs").iterdir())) == 3


class TestExitCodes:
    def test_0_when_the_goal_is_reached_and_3_when_a_limit_is(self, capsys):
        line = ["train", "classify-length", "GRU", "--longest", "2", "--hidden-size", "16"]
        assert main([*line, "--steps", "1"]) == 3
        assert "1 steps without accuracy >= 1" in capsys.readouterr().out
        assert main([*line, "--steps", "2000"]) == 0
        assert "finished, accuracy >= 1 at step" in capsys.readouterr().out

    def test_0_when_a_run_that_should_not_stop_at_its_goal_is_through(self):
        assert train("--steps", "2", "--stop-at", "never") == 0

    def test_1_when_a_run_fails(self, capsys):
        assert train("--steps", "50", "--learning-rate", "3e38", "--clip", "0") == 1
        told = capsys.readouterr().out
        assert "is not finite" in told
        assert "the last good checkpoint is kept" in told

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--copies", "0"], "copies should be 1 or more, got 0"),
            (["--copies", "x"], "--copies: should be a whole number, got 'x'"),
            (["--clip", "x"], "--clip: should be a number, got 'x'"),
            (["--steps"], "--steps"),
            (["--reduction", "median"], "--reduction"),
            (["--runs-dir", ""], "--runs-dir: should name a folder"),
            (["--device", "hpu"], "device 'hpu' cannot be used"),
            (["--device", "privateuseone"], "device 'privateuseone' cannot be used"),
            (["--schedule", "cosine"], "schedule_steps should be more than warmup_steps"),
            (["--final-learning-rate", "0.1"], "final_learning_rate needs schedule"),
            (["--learning-rate", "nan"], "learning_rate should be above 0"),
            (["--clip", "-1"], "clip should be 0 or more"),
            (["--minutes", "-1"], "minutes should be 0 or more"),
            (["--seed", "-1"], "seed should be 0 or more"),
            (["--threads", "-1"], "threads should be 0 or more"),
            (["--device", "nowhere"], "device 'nowhere' cannot be used"),
            (["--device", "meta"], "device 'meta' cannot be used"),
            (["--hidden-size", "99999999999999999999"], "hidden_size should be 2147483647 or less"),
            (["--hidden-size", "2000000000"], "more memory than there is"),
            (["LSTM"], "needs one unit before its options"),
            (["stray", "--steps", "1"], "unknown unit 'stray'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_2_and_one_line_when_it_makes_no_sense(self, more, said, capsys, tmp_path):
        first = ["train", "multicopy", "GRU"]
        rest = more if not more[0].startswith("-") else [*TINY, *more]
        assert main([*first, *rest]) == 2
        assert said in complaint(capsys)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--characters", "3000"], "evaluation_streams should be 75 or fewer"),
            (["--small", "--characters", "1000", "--evaluation-streams", "5", "--batch-size",
              "600"], "batch_size should be 450 or less"),
        ],
    )  # fmt: skip
    def test_2_when_a_text_is_too_short(self, more, said, capsys):
        assert main(["train", "wikipedia", "GRU", *more]) == 2
        assert said in complaint(capsys)

    def test_2_when_a_task_is_missing(self, capsys):
        assert main(["train", "--steps", "3"]) == 2
        assert "needs a task: addition" in complaint(capsys)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_130_after_a_signal_and_nothing_is_lost(self, number, tmp_path):
        command = ["-m", "rda.cli", "train", "multicopy", "GRU", *TINY]
        command += ["--stop-at", "never", "--name", "signalled", "--threads", "1"]
        process = forking.start([*command, "--steps", "1000000"], tmp_path)
        metrics = tmp_path / "runs" / "signalled" / METRICS
        while not metrics.exists() or metrics.stat().st_size < 1000:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait() == 130
        record = Record(metrics.parent)
        assert record.status.state == "interrupted"
        assert record.status.reason == f"{number.name} at step {record.status.step}"
        assert record.curve("loss")[0] == list(range(1, record.status.step + 1))
        more = str(record.status.step + 5)
        assert train("--stop-at", "never", "--steps", more, "--name", "signalled") == 0
        assert train("--stop-at", "never", "--steps", more, "--name", "whole") == 0
        assert metrics.read_bytes() == (tmp_path / "runs" / "whole" / METRICS).read_bytes()


class TestRuns:
    def test_the_same_command_goes_on_and_a_finished_run_is_kept(self, capsys):
        train("--steps", "2", "--name", "run")
        train("--steps", "4", "--name", "run")
        record = Record(Path("runs/run"))
        assert [entry["from_step"] for entry in record.environment] == [0, 2]
        before = (record.folder / METRICS).read_bytes()
        train("--steps", "4", "--name", "run", "--stop-at", "never")
        assert (record.folder / METRICS).read_bytes() == before
        capsys.readouterr()
        assert train("--steps", "4", "--name", "run", "--clip", "2") == 2
        assert "clip 1.0, not 2.0" in complaint(capsys)
        assert train("--steps", "1", "--name", "run", "--clip", "2", "--force") == 3
        assert Record(Path("runs/run")).curve("loss")[0] == [1]

    def test_a_settings_file_stands_for_task_and_unit(self):
        train("--steps", "2", "--name", "first")
        assert main(["train", f"runs/first/{SETTINGS}", "--name", "second"]) == 3
        first, second = (Path("runs") / name / METRICS for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
        assert main(["train", f"runs/first/{SETTINGS}", "--name", "third", "--seed", "1"]) == 3
        assert Record(Path("runs/third")).settings.recipe.seed == 1

    def test_they_are_listed_with_their_states(self, capsys):
        assert main(["runs"]) == 0
        assert "no runs in runs" in capsys.readouterr().out
        train("--steps", "2", "--name", "some-run")
        shutil.copytree("runs/some-run", "runs/other-run")
        status = json.loads(Path("runs/other-run/status.json").read_text())
        Path("runs/other-run/status.json").write_text(json.dumps({**status, "state": "running"}))
        capsys.readouterr()
        assert main(["runs"]) == 0
        told = capsys.readouterr().out
        assert "some-run" in told
        assert "stopped" in told
        assert "killed" in told

    def test_one_is_shown_with_its_curve_and_its_picture(self, capsys):
        train("--steps", "30", "--name", "shown", "--stop-at", "never")
        capsys.readouterr()
        for name in ("shown", "runs/shown", str(Path("runs/shown").absolute())):
            assert main(["show", name]) == 0
            told = capsys.readouterr().out
            assert "loss" in told
            assert "⠤" in told or "⠒" in told or "⣀" in told or "⡀" in told
        assert Path("runs/shown/curves.png").read_bytes().startswith(b"\x89PNG")

    def test_a_run_that_had_ended_says_that_nothing_was_trained(self, capsys):
        for told in (False, True):
            train("--steps", "2", "--stop-at", "never", "--name", "once")
            assert ("it had ended before" in capsys.readouterr().out) == told

    def test_nothing_is_written_into_the_package(self, capsys):
        assert main(["show", str(rda.PRETRAINED)]) == 0
        assert "no picture is written into the package" in capsys.readouterr().out
        assert not (rda.PRETRAINED / "curves.png").exists()

    def test_a_broken_record_is_one_line(self, capsys):
        train("--steps", "2", "--name", "broken")
        Path("runs/broken/status.json").write_text("{")
        capsys.readouterr()
        assert main(["show", "broken"]) == 2
        assert "status.json is missing or changed" in complaint(capsys)
        train("--steps", "2", "--name", "whole")
        capsys.readouterr()
        assert main(["runs"]) == 1
        told = capsys.readouterr().out
        assert "status.json cannot be read" in told
        assert "whole" in told

    def test_training_goes_on_when_nobody_listens_any_more(self, tmp_path):
        command = [sys.executable, "-m", "rda.cli", "train", "multicopy", "GRU", *TINY]
        command += ["--stop-at", "never", "--name", "alone", "--steps", "30", "--threads", "1"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
        process.stdout.close()
        assert process.wait() == 0
        assert Record(tmp_path / "runs" / "alone").status.state == "finished"

    def test_tensorboard_that_is_not_installed_is_one_line(self, capsys, monkeypatch):
        monkeypatch.setattr("rda.training.tensorboard.find_spec", lambda name: None)
        assert train("--steps", "3", "--tensorboard") == 2
        assert "pip install 'rda-torch[tensorboard]'" in complaint(capsys)
        assert not Path("runs").exists()

    def test_a_run_that_is_looked_at_can_be_trained(self):
        from rda.training.locking import RunLock, is_locked

        folder = Path("run")
        folder.mkdir()
        lock = RunLock(folder)
        assert is_locked(folder)
        assert not RunLock(folder).held
        lock.release()
        done = threading.Event()
        looker = threading.Thread(
            target=lambda: [is_locked(folder) for _ in iter(done.is_set, True)]
        )
        looker.start()
        try:
            for _ in range(200):
                lock = RunLock(folder)
                assert lock.held
                lock.release()
        finally:
            done.set()
            looker.join()

    def test_tensorboard_gets_every_step(self):
        assert train("--steps", "3", "--tensorboard", "--name", "watched") == 3
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator("runs/watched/tensorboard")
        events.Reload()
        found = [(event.step, event.value) for event in events.Scalars("loss")]
        steps, losses = Record(Path("runs/watched")).curve("loss")
        assert [step for step, _ in found] == steps
        assert [value for _, value in found] == pytest.approx(losses)

    def test_a_place_that_cannot_be_written_is_one_line(self, capsys):
        Path("file").write_text("")
        assert train("--steps", "1", "--runs-dir", "file/runs") == 2
        assert "cannot write" in complaint(capsys)


class TestCompare:
    def test_a_table_a_picture_and_a_page(self, capsys):
        line = ["compare", "multicopy", "GRU", "RWA", *TINY, "--steps", "5", "--name", "both"]
        assert main(line) == 0
        told = capsys.readouterr().out
        assert "GRU and RWA did not reach" in " ".join(told.split())
        assert Path("runs/both/curves.png").read_bytes().startswith(b"\x89PNG")
        page = Path("runs/both/index.html").read_text()
        assert "rda compare multicopy GRU RWA" in page
        assert sorted(path.name for path in Path("runs").iterdir() if "GRU" in path.name)

    def test_without_units_it_takes_the_papers_five(self, capsys):
        assert main(["compare", "multicopy", *TINY, "--steps", "1"]) == 0
        units = {Record(path.parent).settings.unit for path in Path("runs").glob("*/settings.toml")}
        assert units == set(COMPARED)

    def test_what_is_trained_is_not_trained_again(self, capsys):
        line = ["compare", "multicopy", "GRU", "RWA", *TINY, "--steps", "5", "--stop-at", "never"]
        main(line)
        before = {path: path.read_bytes() for path in Path("runs").glob("*/metrics.jsonl")}
        main(line)
        assert len(before) == 2
        assert {path: path.read_bytes() for path in before} == before

    def test_a_unit_named_twice_is_refused(self, capsys):
        assert main(["compare", "copy", "RWA", "RWA"]) == 2
        assert "unit RWA is named twice" in complaint(capsys)

    def test_nothing_in_a_page_is_markup_that_someone_else_wrote(self):
        from rda.report.comparison import build_comparison
        from rda.report.writing import write_report

        train("--steps", "2", "--name", "plain")
        evil = Path("runs") / "<script>alert(1)<"
        Path("runs/plain").rename(evil)
        write_report(Path("report"), build_comparison([Record(evil)]), "rda <script>")
        page = Path("report/index.html").read_text()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;" in page


class TestData:
    def test_an_empty_folder_has_nothing_good_in_it(self, tmp_path, capsys):
        (tmp_path / "data").mkdir()
        assert main(["data", "list", "--data-dir", "data"]) == 0
        assert capsys.readouterr().out.count("missing") == 5
        assert main(["data", "check", "mnist", "--data-dir", "data"]) == 1

    def test_a_bad_file_is_one_line_when_a_task_wants_it(self, tmp_path, capsys, monkeypatch):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "enwik8").write_text("not quite")
        monkeypatch.setenv("RDA_DATA", str(tmp_path / "data"))
        assert main(["train", "wikipedia", "GRU", "--small"]) == 2
        assert "enwik8" in complaint(capsys)
        monkeypatch.setenv("COLUMNS", "300")
        assert main(["data", "check", "enwik8"]) == 1
        told = capsys.readouterr().out
        assert "bad" in told
        assert f"{tmp_path / 'data' / 'enwik8'} has the wrong size" in told
        assert not Path("runs").exists()


class TestNothingIsUnpickled:
    def test_no_source_of_ours_can(self):
        source = Path(__file__).parents[2] / "rda"
        for path in source.rglob("*.py"):
            text = re.sub(r"#.*", "", path.read_text())
            assert not re.search(
                r"\bpickle\b|torch\.load|torch\.save|(?<!\.)\beval\(|\bexec\(", text
            ), path


def test_the_installed_command_is_this_one():
    command = Path(sys.executable).with_name("rda")
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.startswith("rda ")


def test_all_labels_are_units():
    from rda.catalogue import UNITS

    assert tuple(UNITS) == UNIT_LABELS
