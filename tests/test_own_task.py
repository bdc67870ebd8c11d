"""The task of docs/tasks.md, as a user has it: a file outside the package."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rda.training.record import METRICS, SETTINGS

DOCS = Path(__file__).parents[1] / "docs" / "tasks.md"


@pytest.fixture
def place(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.M | re.S)
    assert len(code.strip().splitlines()) <= 35
    (tmp_path / "parity.py").write_text(code)
    return tmp_path


def start(place, *line, **options):
    environment = {**os.environ, "RDA_TASKS": "parity.py", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    environment.pop("RDA_RUNS", None)
    command = [sys.executable, "-m", "rda", *line]
    return subprocess.Popen(
        command, cwd=place, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **options,
    )  # fmt: skip


def rda(place, *line):
    process = start(place, *line)
    told, _ = process.communicate()
    return process.returncode, told


SMALL = ("--small", "--threads", "1", "--stop-at", "never")


def test_it_trains_resumes_after_a_kill_and_appears_everywhere(place):
    line = ["train", "parity", "RDA-exp-tanh", *SMALL, "--checkpoint-minutes", "0.005"]
    process = start(place, *line, "--steps", "1000000", "--name", "killed")
    metrics = place / "runs" / "killed" / METRICS
    while not list(metrics.parent.glob("checkpoints/*.sha256")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    steps = str(len(metrics.read_text().splitlines()) + 20)
    code, told = rda(place, *line, "--steps", steps, "--name", "killed")
    assert code == 0, told
    assert rda(place, *line, "--steps", steps, "--name", "whole")[0] == 0
    assert metrics.read_bytes() == (place / "runs" / "whole" / METRICS).read_bytes()

    code, told = rda(place, "compare", "parity", "GRU", "RWA", *SMALL, "--steps", "20")
    assert code == 0, told
    assert "Parity" in told
    (page,) = place.glob("runs/compare-*/index.html")
    shown = page.read_text()
    assert "an odd number of ones" in shown
    assert "arXiv 1705.08480" not in shown.split("<main", 1)[0] or "paper" in shown
    code, told = rda(place, "runs")
    assert code == 0
    assert "parity-GRU-small-seed0" in told
    assert "RDA-exp-tanh on parity" in told
    assert "--length" in rda(place, "train", "parity", "--help")[1]


def test_without_its_file_the_run_is_named_and_the_others_are_shown(place, monkeypatch):
    line = ["--small", "--steps", "1", "--threads", "1"]
    rda(place, "train", "parity", "GRU", *line)
    rda(place, "train", "copy", "GRU", *line)
    monkeypatch.delenv("RDA_TASKS", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "rda", "runs"],
        cwd=place,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert "copy-GRU-small-seed0" in done.stdout
    assert "unknown task 'parity'" in done.stdout


def test_from_python_a_task_of_ones_own_sizes_is_trained_and_loaded(place, monkeypatch):
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(place)
    code = """
import parity, rda, torch
record = rda.train(parity.Parity(length=5), "RDA", hidden_size=8, batch_size=4, steps=3,
                   folder="here", progress=False)
assert record.settings.unit == "RDA-exp-tanh" and record.settings.task.length == 5
model = rda.load("here")
prediction, _ = model(torch.zeros(5, 7, 1))
assert prediction.shape == (7, 2)
assert model.record.status.step == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=place)
    assert 'name = "parity"' in (place / "here" / SETTINGS).read_text()
