"""What testers of the command line stumbled over, each as they met it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import forking
import pytest

from rda.cli import main
from rda.training.record import METRICS, SETTINGS, STATUS, Record

TINY = [
    "--copies", "2", "--symbols", "2", "--alphabet", "3", "--hidden-size", "8",
    "--batch-size", "4", "--threads", "1",
]  # fmt: skip
ESCAPE = "\x1b[31m"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("RDA_RUNS", "RDA_DATA", "RDA_TASKS"):
        monkeypatch.delenv(name, raising=False)


def train(*more, unit="GRU"):
    return main(["train", "multicopy", unit, *TINY, "--steps", "2", *more])


def edit_status(run, **values):
    """Change the status of a run as earlier versions left it, without a manifest."""
    (Path("runs") / run / "manifest.sha256").unlink(missing_ok=True)
    path = Path("runs") / run / STATUS
    status = json.loads(path.read_text())
    status.pop("sealed", None)
    path.write_text(json.dumps({**status, **values}))


class TestNothingIsLeftBehind:
    @pytest.mark.parametrize("unit", ["RDA-exp-tanh", "LSTM"])
    def test_an_engine_that_cannot_serve_leaves_no_run(self, unit, capsys):
        assert train("--engine", "cuda", "--device", "cpu", unit=unit) == 2
        assert "cuda" in capsys.readouterr().err
        assert not Path("runs").exists() or not list(Path("runs").iterdir())

    def test_sizes_without_memory_leave_no_run(self, capsys):
        line = ["train", "addition", "GRU", "--length", "2000000000", "--batch-size", "1000000"]
        assert main(line) == 2
        assert "more memory than there is" in capsys.readouterr().err
        assert not Path("runs").exists() or not list(Path("runs").iterdir())


class TestEngines:
    def test_an_engine_of_other_units_is_refused_and_not_passed_over(self, capsys):
        assert train("--engine", "torch", unit="RWA") == 2
        assert "torch" in capsys.readouterr().err
        line = ["compare", "multicopy", "GRU", "RWA", *TINY, "--steps", "1"]
        assert main([*line, "--engine", "torch"]) == 2
        assert not Path("runs").exists()

    @pytest.mark.parametrize("engine", ["eager", "reference"])
    def test_engines_have_the_same_names_for_all_units(self, engine):
        assert train("--engine", engine, "--name", engine, unit="LSTM") == 3
        (entry,) = Record(Path("runs") / engine).environment
        assert entry["engine"] == engine

    def test_torchs_own_lstm_can_be_asked_for(self):
        assert train("--engine", "torch", "--name", "own", unit="LSTM") == 3
        (entry,) = Record(Path("runs/own")).environment
        assert entry["engine"] == "torch.nn"


class TestWhereRunsAre:
    def test_the_hint_shows_this_run_and_no_other_of_its_name(self, capsys):
        train("--name", "same", "--seed", "1")
        train("--name", "same", "--seed", "2", "--runs-dir", "other place")
        told = capsys.readouterr().out
        hint = told[told.rindex("rda show") :].partition(" draws")[0]
        assert hint == "rda show same --runs-dir 'other place'"
        assert main(["show", "same", "--runs-dir", "other place"]) == 0
        assert "seed = 2" in capsys.readouterr().out

    def test_a_tilde_is_the_home_folder(self, tmp_path, monkeypatch):
        home = tmp_path / "home"
        monkeypatch.setenv("HOME", str(home))
        train("--name", "one", "--runs-dir", "~/runs")
        assert (home / "runs" / "one" / SETTINGS).exists()
        assert not Path("~").exists()

    def test_an_empty_folder_name_writes_nowhere(self, capsys):
        assert train("--name", "one", "--runs-dir", "") == 2
        assert not Path("one").exists()


class TestWords:
    def test_the_help_that_an_error_advises_can_be_called(self, capsys):
        assert main(["train", "addition", "RWA", "--lenght", "3"]) == 2
        told = capsys.readouterr().err
        advised = told[told.rindex("(") + 1 : told.rindex(")")].split()
        assert advised[0] == "rda"
        assert main(advised[1:]) == 0

    def test_rda_alone_is_the_default_unit(self):
        assert train("--name", "short", unit="RDA") == 3
        assert Record(Path("runs/short")).settings.unit == "RDA-exp-tanh"

    def test_the_version_is_in_the_help(self, capsys):
        main(["--help"])
        assert "--version" in capsys.readouterr().out

    def test_python_m_rda_is_the_command(self):
        done = subprocess.run(
            [sys.executable, "-m", "rda", "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("rda ")

    def test_after_ctrl_c_it_says_how_to_continue(self, tmp_path):
        command = ["-m", "rda.cli", "train", "multicopy", "GRU", *TINY]
        process = forking.start(
            [*command, "--steps", "1000000", "--stop-at", "never", "--name", "stopped"]
        )
        metrics = tmp_path / "runs" / "stopped" / METRICS
        while not metrics.exists() or metrics.stat().st_size < 500:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate()
        assert process.returncode == 130
        assert "the same command continues" in told


class TestOddFiles:
    @pytest.mark.parametrize("device", ["hpu", "privateuseone"])
    def test_a_device_that_needs_another_package_is_one_line(self, device, capsys):
        assert train("--device", device) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def test_a_number_too_large_for_a_float_is_one_line(self, capsys):
        train("--name", "first")
        text = Path("runs/first/settings.toml").read_text()
        Path("odd.toml").write_text(text.replace("clip = 1.0", "clip = 1" + "0" * 400))
        assert main(["train", "odd.toml"]) == 2
        assert "clip" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "status", [{"reason": None}, {"best": None}, {"state": 5}, {"step": None}], ids=str
    )
    def test_one_odd_status_hides_no_other_run(self, status, capsys):
        train("--name", "good")
        train("--name", "odd")
        edit_status("odd", **status)
        capsys.readouterr()
        assert main(["runs"]) == 1
        told = capsys.readouterr().out
        assert "good" in told
        assert "status.json cannot be read" in told
        assert main(["show", "odd"]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    @pytest.mark.parametrize("name", ["status.json", "environment.json"])
    def test_deep_nesting_is_one_line(self, name, capsys):
        train("--name", "good")
        train("--name", "deep")
        edit_status("deep")
        Path("runs/deep", name).write_text("[" * 100_000 + "]" * 100_000)
        capsys.readouterr()
        assert main(["runs"]) == 1
        told = capsys.readouterr().out
        assert "good" in told
        assert "nested too deeply" in told
        assert main(["show", "deep"]) == 2

    def test_a_number_of_400_digits_in_the_metrics_is_one_line(self, capsys):
        train("--name", "good")
        train("--name", "large")
        edit_status("large")
        Path("runs/large", METRICS).write_text('{"step": 1, "loss": 1' + "0" * 400 + "}\n")
        capsys.readouterr()
        assert main(["runs"]) == 1
        assert "good" in capsys.readouterr().out
        assert main(["show", "large"]) == 2

    def test_an_environment_without_a_command_can_be_shown(self, capsys):
        train("--name", "one")
        edit_status("one", state="running")
        Path("runs/one/environment.json").write_text('[{"torch": "2"}]')
        capsys.readouterr()
        assert main(["show", "one"]) == 0
        assert "continues with: the command that started it" in capsys.readouterr().out

    def test_a_folder_that_may_not_be_read_is_named_and_hides_no_other(self, capsys, monkeypatch):
        train("--name", "good")
        train("--name", "secret")
        capsys.readouterr()
        is_file = Path.is_file

        def refuses(path):
            if "secret" in path.parts:
                raise PermissionError(13, "Permission denied", str(path))
            return is_file(path)

        monkeypatch.setattr(Path, "is_file", refuses)
        assert main(["runs"]) == 1
        told = capsys.readouterr().out
        assert "good" in told
        assert "runs/secret" in told
        assert "Permission denied" in told

    def test_a_settings_file_of_one_endless_key_is_refused_at_once(self, capsys):
        train("--name", "good")
        shutil.copytree("runs/good", "runs/endless")
        Path("runs/endless", SETTINGS).write_text(".".join("a" * 100_000) + " = 1\n")
        capsys.readouterr()
        assert main(["runs"]) == 1
        told = capsys.readouterr().out
        assert "good" in told
        assert "too large for settings" in told

    def test_reasons_and_commands_are_shown_and_not_obeyed(self, capsys):
        train("--name", "one")
        edit_status("one", state="failed", reason=f"{ESCAPE}red")
        capsys.readouterr()
        assert main(["show", "one"]) == 0
        assert ESCAPE not in capsys.readouterr().out
        edit_status("one", state="running")
        environment = Path("runs/one/environment.json")
        entries = json.loads(environment.read_text())
        environment.write_text(json.dumps([{**entries[0], "command": f"rda {ESCAPE}train"}]))
        assert main(["show", "one"]) == 0
        assert ESCAPE not in capsys.readouterr().out

    def test_a_list_of_runs_reads_only_the_end_of_each(self, capsys, monkeypatch):
        train("--name", "long")
        capsys.readouterr()
        edit_status("long")
        metrics = Path("runs/long", METRICS)
        rows = "".join(f'{{"step": {s}, "loss": 2.5, "accuracy": 0.5}}\n' for s in range(1, 20001))
        metrics.write_text("half of this line is damaged\n" + rows)
        assert main(["runs"]) == 0
        assert "2.5" in capsys.readouterr().out


def test_a_run_that_goes_on_says_after_which_step(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = ["train", "addition", "RWA", "--small", "--hidden-size", "4", "--batch-size", "2"]
    line += ["--device", "cpu", "--steps"]
    assert main([*line, "2"]) == 3
    assert "goes on" not in capsys.readouterr().out
    assert main([*line, "4"]) == 3
    assert "addition RWA: goes on after step 2\n" in capsys.readouterr().out


class TestOwnTasks:
    def test_a_file_of_tasks_that_is_gone_is_one_line(self, capsys, monkeypatch):
        monkeypatch.setenv("RDA_TASKS", "gone.py")
        for line in (["train", "copy", "--help"], ["runs"], ["train", "copy", "GRU", "--small"]):
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                main(line)
            told = capsys.readouterr()
            assert "Traceback" not in told.err
            if line == ["train", "copy", "--help"]:  # once in a process
                assert told.err.startswith("rda: gone.py of $RDA_TASKS cannot be used: there is")
                assert told.out


class TestNamesOfComparisons:
    def test_long_names_of_different_comparisons_differ(self):
        from rda.commands.compare import _default_name
        from rda.labels import UNIT_LABELS
        from rda.training.settings import small_settings, with_changes

        names = {
            _default_name(
                [with_changes(small_settings("copy", u), {"seed": seed}) for u in UNIT_LABELS]
            )
            for seed in (0, 1, 2)
        }
        assert len(names) == 3
        assert max(map(len, names)) <= 100

    def test_small_beside_a_settings_file_is_refused(self, capsys):
        train("--name", "first")
        assert main(["train", "runs/first/settings.toml", "--small"]) == 2
        assert "--small does not go with a settings file" in capsys.readouterr().err


class TestDamage:
    @pytest.mark.parametrize("name", ["model.safetensors", METRICS])
    def test_a_damaged_run_is_not_shown_as_a_result(self, name, capsys):
        train("--name", "one", "--stop-at", "never")
        path = Path("runs/one", name)
        content = bytearray(path.read_bytes())
        content[20] ^= 1
        path.write_bytes(content)
        capsys.readouterr()
        assert main(["show", "one"]) == 2
        assert name in capsys.readouterr().err

    def test_a_model_that_was_deleted_is_made_again(self, capsys):
        train("--name", "one", "--stop-at", "never")
        before = Path("runs/one/model.safetensors").read_bytes()
        os.remove("runs/one/model.safetensors")
        assert train("--name", "one", "--stop-at", "never") == 0
        assert "model.safetensors" in capsys.readouterr().out
        assert Path("runs/one/model.safetensors").read_bytes() == before
        assert main(["show", "one"]) == 0

    def test_checkpoints_behind_a_link_can_be_started_over(self, tmp_path):
        train("--name", "one")
        shutil.move("runs/one/checkpoints", "elsewhere")
        Path("runs/one/checkpoints").symlink_to(tmp_path / "elsewhere")
        for _ in range(2):
            assert train("--name", "one", "--force") == 3

    def test_a_persons_own_hidden_file_is_kept(self):
        train("--name", "one")
        Path("runs/one/.notes.tmp").write_text("precious")
        train("--name", "one", "--steps", "3")
        assert Path("runs/one/.notes.tmp").read_text() == "precious"
