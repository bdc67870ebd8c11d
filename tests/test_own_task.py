"""The task of docs/tasks.md, as a user has it: a file outside the package."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import forking
import pytest

from rda.training.record import METRICS, SETTINGS

DOCS = Path(__file__).parents[1] / "docs" / "tasks.md"


@pytest.fixture
def place(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.M | re.S)
    assert len(code.strip().splitlines()) <= 35
    (tmp_path / "parity.py").write_text(code)
    return tmp_path


SEVERAL = """
import contextlib, io, json, sys
from rda.cli import main
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = main(line)
    print(json.dumps([code, told.getvalue()]))
"""
"""Runs several command lines in one process, which loads torch once; prints code and output."""


def start(place, *arguments):
    environment = {**os.environ, "RDA_TASKS": "parity.py", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    environment.pop("RDA_RUNS", None)
    return forking.start(arguments, place, environment, together=True)


def rda(place, *lines):
    """Exit code and output of each command line."""
    process = start(place, "-c", SEVERAL, json.dumps(lines))
    told, _ = process.communicate()
    assert process.returncode == 0, told
    return [json.loads(line) for line in told.splitlines() if line.startswith("[")]


SMALL = ("--small", "--threads", "1", "--stop-at", "never")


def test_it_trains_resumes_after_a_kill_and_appears_everywhere(place):
    line = ["train", "parity", "RDA-exp-tanh", *SMALL, "--checkpoint-minutes", "0.005"]
    process = start(place, "-m", "rda", *line, "--steps", "1000000", "--name", "killed")
    metrics = place / "runs" / "killed" / METRICS
    while not list(metrics.parent.glob("checkpoints/*.sha256")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    line += ["--steps", str(len(metrics.read_text().splitlines()) + 20)]
    resumed, whole, compared, listed = rda(
        place,
        [*line, "--name", "killed"],
        [*line, "--name", "whole"],
        ["compare", "parity", "GRU", "RWA", *SMALL, "--steps", "20"],
        ["runs"],
    )
    assert [code for code, _ in (resumed, whole, compared, listed)] == [0] * 4
    assert metrics.read_bytes() == (place / "runs" / "whole" / METRICS).read_bytes()
    assert "Parity" in compared[1]
    (page,) = place.glob("runs/compare-*/index.html")
    shown = page.read_text()
    assert "an odd number of ones" in shown
    assert "parity-GRU-small-seed0" in listed[1]
    assert "RDA-exp-tanh on parity" in listed[1]


def test_its_settings_are_in_the_help(place):
    told, _ = start(place, "-m", "rda", "train", "parity", "--help").communicate()
    assert "--length" in told


def test_without_its_file_the_run_is_named_and_the_others_are_shown(place, monkeypatch):
    options = ["GRU", "--small", "--steps", "1", "--threads", "1"]
    rda(place, ["train", "parity", *options], ["train", "copy", *options])
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
    ended, _, complaints = forking.run(["-c", code], place)
    assert ended == 0, complaints
    assert 'name = "parity"' in (place / "here" / SETTINGS).read_text()
