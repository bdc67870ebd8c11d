"""The benchmark of text runs on any machine, and its table says what was measured."""

import json
import sys
from pathlib import Path

import pytest
import torch

from rda.labels import COMPARED

FOLDER = Path(__file__).parents[1] / "benchmarks"


pytestmark = pytest.mark.usefixtures("benchmarks")


@pytest.fixture
def text():
    import text

    return text


def taken(median):
    return {"median": median, "low": 0.8 * median, "high": 1.25 * median}


@pytest.fixture
def record():
    facts = {"gpu": "a GPU", "date": "today", "commit": "abc", "command": "python text.py"}
    subjects = [
        {"name": "nn.LSTM", "engine": "cuDNN", "step": taken(16.0), "loading": taken(0.02)},
        {"name": "RDA-exp-tanh", "engine": "grid", "step": taken(8.0), "loading": taken(0.02)},
        {"name": "rda's GRU", "error": "no a|b"},
    ]
    size = {"units": 1800, "embedding": 64, "batch": 128, "segment": 250}
    epoch = {"task": "wikipedia", "precision": "bfloat16", "training_characters": 90_000_000}
    times = {"LSTM": taken(250.0)}
    writing = {"device": "cuda", "units": 1800, "characters": 500, "times": times}
    training = [{**epoch, **size, "subjects": subjects}]
    return {"machine": facts, "training": training, "generation": [writing]}


def run_small(text, monkeypatch, *options):
    line = ["text.py", "--small", "--device", "cpu", "--rounds", "2", *options]
    monkeypatch.setattr(sys, "argv", line)
    text.main()


def test_every_unit_is_trained_and_text_written_on_a_machine_without_a_gpu(
    text, table, monkeypatch, tmp_path, capsys
):
    """As a whole run is recorded, part by part."""
    prepare = text.prepare

    def prepare_to_record():
        asked, *others = prepare()
        asked.record = True
        return asked, *others

    monkeypatch.setattr(text, "prepare", prepare_to_record)
    monkeypatch.setattr(text, "RESULTS", tmp_path / "text.json")
    threads = torch.get_num_threads()
    run_small(text, monkeypatch)
    assert torch.get_num_threads() == threads
    assert {unit for unit, _ in text.SUBJECTS.values()} == set(COMPARED)
    printed = capsys.readouterr().out
    recorded = table.render_results(json.loads((tmp_path / "text.json").read_text()))
    for shown in (printed, recorded):
        rows = [line for line in shown.splitlines() if line.endswith("% |")]
        assert [row.split(" | ")[0] for row in rows] == [f"| {name}" for name in text.SUBJECTS]
        assert shown.count("**Writing on one CPU thread**") == 2
        assert "not measured" not in shown


def test_a_unit_that_cannot_be_trained_says_why_beside_the_others(text, monkeypatch, capsys):
    monkeypatch.setattr(text, "SUBJECTS", {"nn.GRU": ("GRU", "torch"), "RWA": ("RWA", "cuda")})
    monkeypatch.setattr(text, "WRITERS", ("RWA",))
    run_small(text, monkeypatch)
    printed = capsys.readouterr().out
    assert "| RWA | - | not measured: EngineUnavailableError" in printed
    assert "| nn.GRU | torch.nn |" in printed


def test_the_record_is_told_beside_cudnn(table, record):
    told = table.render_results(record)
    lstm = "| nn.LSTM | cuDNN | 16.00 (12.80 to 20.00) | **1.00x** | 2,000,000 | 45.0 | 0.12% |"
    rda = "| RDA-exp-tanh | grid | 8.00 (6.40 to 10.00) | **2.00x** | 4,000,000 | 22.5 | 0.25% |"
    for line in (lstm, rda, "| rda's GRU | - | not measured: no a\\|b | | | | |"):
        assert line in told
    assert "**Writing on a GPU**: 1800 units" in told
    assert "| LSTM | 2000 (1600 to 2500) |" in told
    assert told.startswith("a GPU.\n\n")
    assert told.endswith("today, commit `abc`, `python text.py`.")


def test_without_the_peer_there_are_no_ratios(table, record):
    record["training"][0]["subjects"][0] = {"name": "nn.LSTM", "error": "out of memory"}
    assert "| RDA-exp-tanh | grid | 8.00 (6.40 to 10.00) | - |" in table.render_results(record)


def test_the_readme_says_whether_text_is_recorded(table, record, monkeypatch, tmp_path):
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    assert "not recorded yet: `python benchmarks/text.py --record`" in table.render_readme()
    (tmp_path / "text.json").write_text(json.dumps(record))
    readme = table.render_readme()
    assert "not recorded yet" not in readme
    assert "| RDA-exp-tanh | grid |" in readme


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "cpu"], "--small runs on a CPU"),
        (["--small", "--record"], "record a whole run"),
        (["--small", "--rounds", "1"], "--rounds should be 2 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(text, options, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["text.py", *options])
    with pytest.raises(SystemExit):
        text.main()
    assert said in capsys.readouterr().err


def test_a_profile_lists_what_a_step_consists_of(text, monkeypatch, capsys):
    run_small(text, monkeypatch, "--profile", "RDA-exp-tanh")
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("RDA-exp-tanh in float32: microseconds a step, ")
    assert any("x  rda::" in row or "x  aten::" in row for row in rows)
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True)
