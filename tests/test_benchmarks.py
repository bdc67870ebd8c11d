"""The benchmark runs, and its README contains what was recorded."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from copied_checkouts import BEFORE

from rda.scan.cpu import native
from rda.training.settings import small_settings

FOLDER = Path(__file__).parents[1] / "benchmarks"
MACHINE = {
    "cpu": "a CPU",
    "threads": 2,
    "gpu": "a GPU",
    "driver": "580.1",
    "torch": "2.11",
    "python": "3.12",
    "commit": "abc1234",
    "date": "2026-01-02",
    "command": "python benchmarks/speed.py --device cuda",
}


pytestmark = pytest.mark.usefixtures("benchmarks")


def taken(median):
    spread = {"median": median, "low": 0.9 * median, "high": 1.1 * median}
    return {**spread, "rounds": 15, "steps_a_turn": 3}


def subject(name, precision, median):
    times = {"forward": taken(median / 3), "training": taken(median)}
    return {
        "name": name,
        "precision": precision,
        "engine": "cuda",
        "peak_memory_mb": 10 * median,
        **times,
    }


def cell(precision, units, batch, ratio, engine="cuda"):
    lstm = 1 + units * batch / 1e4
    return {
        "precision": precision,
        "units": units,
        "batch": batch,
        "engine": engine,
        "training": {"nn.LSTM": taken(lstm), "RDA-exp-tanh": taken(ratio * lstm)},
        "ratio": ratio,
    }


@pytest.fixture
def gpu_record():
    size = {"units": 250, "batch": 100, "time": 1000, "inputs": 10}
    missing = {"name": "FlashRNN LSTM", "precision": "bf16", "error": "no module a|b"}
    subjects = [
        subject("nn.LSTM", "tf32", 20.0),
        subject("RDA-exp-tanh", "tf32", 10.0),
        subject("nn.LSTM", "bf16", 12.0),
        subject("RDA-exp-tanh", "bf16", 8.0),
        missing,
    ]
    cells = [
        cell("tf32", 250, 100, 0.5),
        cell("tf32", 250, 512, 1.25),
        cell("tf32", 2048, 100, 0.75, "torch"),
        {"precision": "tf32", "units": 2048, "batch": 512, "error": "out of memory"},
    ]
    whole = {"precision": "tf32", "whole": taken(12.0), "bare": taken(10.0), "ratio": 1.2}
    calls = [{"engine": "cuda", "seconds": seconds, "sum": 1.5} for seconds in (6.0, 0.5, 6.1, 6.2)]
    parts: dict[str, dict[str, Any]] = {
        "main": {"comparisons": [{**size, "subjects": subjects}]},
        "grid": {"time": 250, "inputs": 64, "cells": cells},
        "overhead": {"task": "multicopy", "unit": "RDA-exp-tanh", **size, "rows": [whole]},
        "first-use": {
            "uses": [
                {
                    **size,
                    "precision": "tf32",
                    "empty_cache": calls[0],
                    "full_cache": calls[1],
                    "together": calls[2:],
                    "agree": True,
                }
            ]
        },
    }
    return {"parts": {name: {"machine": MACHINE, **part} for name, part in parts.items()}}


@pytest.fixture
def scaling_table(benchmarks):
    """The module with the model of a step on several processes."""
    import scaling_table

    return scaling_table


def test_the_readme_is_made_from_the_records(table):
    assert (FOLDER / "README.md").read_text() == table.render_readme()


def test_every_record_names_its_machine_and_command():
    records = list((FOLDER / "results").glob("*.json"))
    assert records
    for path in records:
        record = json.loads(path.read_text())
        for made in record["parts"].values() if "parts" in record else [record]:
            machine = made["machine"]
            for name in ("cpu", "threads", "torch", "python", "commit", "date", "command"):
                assert machine[name]
            assert "dirty" not in machine["commit"] or BEFORE.startswith(machine["commit"][:7])


def test_a_quick_run_ends_with_a_table():
    command = [sys.executable, str(FOLDER / "speed.py"), "--quick", "--rounds", "2"]
    done = subprocess.run([*command, "--threads", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("nn.LSTM", "nn.GRU", "RDA-exp-tanh", "RDACell"):
        assert f"| {name} |" in done.stdout


def test_the_ratio_in_the_readme_is_the_recorded_one():
    case = json.loads((FOLDER / "results" / "cpu.json").read_text())["cases"][0]
    assert (case["units"], case["batch"]) == (250, 100)
    medians = {name: times["training"]["median"] for name, times in case["times_ms"].items()}
    ratio = medians["nn.LSTM"] / medians["RDA-exp-tanh"]
    assert f"{ratio:.2f} times as fast as nn.LSTM" in (FOLDER.parent / "README.md").read_text()


def recorded_ratio(part, name, precision):
    """How many times as fast as nn.LSTM a subject is in the record of the H200."""
    record = json.loads((FOLDER / "results" / "h200.json").read_text())
    subjects = record["parts"][part]["comparisons"][0]["subjects"]
    times = {
        subject["name"]: subject["training"]["median"]
        for subject in subjects
        if subject["precision"] == precision
    }
    return times["nn.LSTM"] / times[name]


@pytest.mark.parametrize("name", ["RDA-exp-tanh", "rda's LSTM", "rda's GRU"])
def test_the_gpus_ratios_in_the_readme_are_the_recorded_ones(name):
    ratios = (recorded_ratio("main", name, precision) for precision in ("bf16", "tf32", "fp32"))
    row = " | ".join((f"| {name}", *(f"{ratio:.1f} times as fast" for ratio in ratios), ""))
    assert row.rstrip() in (FOLDER.parent / "README.md").read_text()


def test_the_large_layers_ratio_in_the_readme_is_the_recorded_one():
    ratio = recorded_ratio("large", "RDA-exp-tanh", "bf16")
    said = f"RDA-exp-tanh is {ratio:.1f} times as fast as cuDNN's LSTM"
    assert said in (FOLDER.parent / "README.md").read_text()


def test_the_range_that_the_readme_claims_is_the_recorded_one():
    parts = json.loads((FOLDER / "results" / "h200.json").read_text())["parts"]
    ratios = [cell["ratio"] for name in ("grid", "long") for cell in parts[name]["cells"]]
    said = f"Over {len(ratios)} sizes", f"takes {min(ratios):.2f} to {max(ratios):.2f} of the time"
    readme = " ".join((FOLDER.parent / "README.md").read_text().split())
    assert all(each in readme for each in said)


def test_a_gpu_record_compares_within_a_precision(table, gpu_record):
    text = table.render_results(gpu_record)
    assert "| tf32 | RDA-exp-tanh | cuda | 15 | 3.33 (3.00 to 3.67) | **2.00x** |" in text
    assert "| 8.00 (7.20 to 8.80) | **1.50x** | 80 |" in text
    assert "a GPU, driver 580.1, torch 2.11, Python 3.12, a CPU." in text
    assert text.count("2026-01-02, commit `abc1234`") == 4


def test_what_could_not_be_measured_says_why(table, gpu_record):
    text = table.render_results(gpu_record)
    assert "| bf16 | FlashRNN LSTM | - | | not measured: no module a\\|b | | | | |" in text
    assert "Not measured (tf32, 2048 units, batch 512): out of memory" in text


def test_the_grid_marks_what_is_slower_and_what_another_engine_ran(table, gpu_record):
    text = table.render_results(gpu_record, "![a picture](there.png)")
    assert "| 250 units | 0.50 | **1.25** |" in text
    assert "| 2048 units | 0.75¹ | - |" in text
    assert "above 1.10: 1 of 4. RDA's engine: cuda, ¹ torch." in text
    assert "![a picture](there.png)" in text


def test_overhead_and_first_use_are_told(table, gpu_record):
    text = table.render_results(gpu_record)
    assert "| tf32 | 12.00 (10.80 to 13.20) | 10.00 (9.00 to 11.00) | **1.20** |" in text
    assert "| cuda | 6.00 | 0.50 | 6.10 and 6.20 | same output |" in text


def test_parts_from_two_machines_name_both(table, gpu_record):
    gpu_record["parts"]["grid"]["machine"] = {**MACHINE, "gpu": "another GPU"}
    text = table.render_results(gpu_record)
    assert "main, overhead, first-use: a GPU, " in text
    assert "grid: another GPU, " in text


def test_the_picture_of_the_grid_is_drawn(gpu_record, tmp_path):
    import pictures

    pictures.draw_grid(tmp_path / "grid.png", gpu_record["parts"]["grid"])
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_engines_beside_one_another_show_where_auto_is_wrong(table):

    def met(batch, chosen, **medians):
        times = {name: {"median": median} for name, median in medians.items()}
        size = {"precision": "bf16", "units": 384, "batch": batch, "time": 250}
        return {**size, "engine": chosen, "training": times}

    cells = [
        met(100, "cuda", cuda=2.0, grid=4.0, graph=3.0),
        met(512, "cuda", cuda=5.0, graph=4.0),
        met(1024, "graph", graph=7.0),
        {"precision": "bf16", "units": 600, "batch": 100, "time": 1000, "error": "no"},
    ]
    part = {"inputs": 64, "cells": cells, "machine": MACHINE}
    text = table.render_results({"parts": {"engines": part}})
    assert "| 384 units | cuda 1.50 | **graph 1.25** | graph |" in text
    assert "1 of 4" in text
    assert text.index("250 steps:") < text.index("1000 steps:")


def test_kernels_are_shown_with_their_share(table):
    kernel = {"name": "forward_step", "count": 250, "microseconds": 500.0}
    size = {"units": 1800, "batch": 128, "time": 250, "inputs": 128}
    step = {**size, "precision": "bf16", "engine": "graph", "microseconds": 2000.0}
    part = {"steps": [{**step, "kernels": [kernel]}], "machine": MACHINE}
    text = table.render_results({"parts": {"kernels": part}})
    assert "| `forward_step` | 250 | 2.0 | 25% |" in text


def test_every_part_runs_and_renders_wherever_it_is_tried(table, tmp_path, monkeypatch):
    """On a CPU with tiny sizes; a part that is not run again stays as it was."""
    # For this process; those of first-use compile without optimisation.
    native.compiled("RDA exp identity tanh", torch.float32)
    monkeypatch.setenv("RDA_CPU_FLAGS", "-O0")
    import on_gpu
    import speed
    from measuring import Case
    from on_gpu import Comparison, Grid, Plan

    subjects = {"fp32": ("nn.LSTM", "RDA-exp-tanh", "FlashRNN LSTM")}
    small = small_settings("multicopy", "RDA-exp-tanh")
    plan = Plan(
        main=[Comparison(Case(8, 2, 3, 4), subjects)],
        large=[Comparison(Case(12, 2, 3, 4), subjects)],
        grid=Grid((250, 16), (1, 100), ("fp32", "bf16"), time=2, inputs=3, cell_seconds=0),
        long=Grid((16,), (1,), ("fp32",), time=2, inputs=3, cell_seconds=0),
        engines=[Grid((16,), (1, 2), ("fp32",), time=2, inputs=3, cell_seconds=0)],
        kernels=[("fp32", Case(8, 2, 3, 4))],
        overhead=replace(small, recipe=replace(small.recipe, hidden_size=8, batch_size=4)),
        overhead_steps=1,
        first_use=[("fp32", Case(8, 2, 3, 4))],
        rounds=2,
    )
    to = tmp_path / "record.json"
    everything = speed.measure_parts(on_gpu.PARTS, plan, torch.device("cpu"), to)
    again = speed.measure_parts(["main"], plan, torch.device("cpu"), to)
    assert json.loads(to.read_text()) == again
    assert again["parts"].keys() == everything["parts"].keys() == on_gpu.PARTS.keys()
    assert again["parts"]["grid"] == json.loads(json.dumps(everything["parts"]["grid"]))
    (use,) = again["parts"]["first-use"]["uses"]
    assert use["agree"]
    (one,) = again["parts"]["main"]["comparisons"]
    assert [subject["name"] for subject in one["subjects"] if "error" in subject] == [
        "FlashRNN LSTM"
    ]
    assert table.render_results(again).count("###") == len(on_gpu.PARTS)


def test_a_record_of_shared_runs_has_its_table(table):
    machine = {"gpu": "a GPU", "date": "today", "commit": "abc", "command": "python sharing.py"}
    rates = {"1": 100.0, "2": 150.0, "4": 200.0, "8": 300.0}
    case = {"unit": "LSTM", "precision": "float32", "sharing": "time slices"}
    entries = [{**case, "steps_per_second": rates}]
    text = table.render_results({"machine": machine, "seconds": 4.0, "entries": entries})
    assert text.startswith("a GPU.\n\n| unit | sharing |")
    assert "| LSTM float32 | time slices | 100 (1.00 x) | 150 (1.50 x) | 200 (2.00 x) |" in text
    assert text.endswith("today, commit `abc`, `python sharing.py`.")


def test_two_trees_are_measured_beside_each_other():
    tree = str(FOLDER.parent)
    line = [sys.executable, str(FOLDER / "two_trees.py"), tree, tree, "--small", "--rounds", "1"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for layer in ("RDA-sigmoid-id", "GRU", "nn.LSTM"):
        assert f"| 16 x 4 x 10 | fp32 | {layer} | " in done.stdout
    done = subprocess.run([*line, "--only", "text"], capture_output=True, text=True)
    assert "| text | float32 | RDA-exp-tanh | " in done.stdout
    assert "| 16 x 4 x 10 | " not in done.stdout


def test_scaling_is_measured_and_worked_out_in_one_go():
    sizes = "--units 4 8 --batch 4 --rows 4 2 --sizes 1 2 --rounds 1 --seconds 0.1"
    line = f"{FOLDER / 'scaling.py'} {sizes} --turns 1 --steps 3"
    done = subprocess.run([sys.executable, *line.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for row in ("| 4 | 0.00 | 1 |", "| 4 | 0.00 | 2 |", "| 8 | 0.00 | 2 |"):
        assert row in done.stdout
    assert "`torchrun --nproc-per-node 1 -m rda train` makes " in done.stdout


def test_the_model_of_scaling_finds_what_it_is_made_of(scaling_table):
    network = scaling_table.Network(2e6, 0.05)
    assert network.reduce(4e6, 1) == 0
    assert network.reduce(4e6, 2) == pytest.approx(2 + 0.1)
    assert network.reduce(4e6, 4) == pytest.approx(3 + 0.3)
    alone = {str(rows): taken(5 + 0.5 * rows) for rows in (64, 32, 16, 8)}
    cases = []
    for parameters in (10_000, 1_000_000):
        team = {"step_ms": taken(30.0)}
        team["reducing_ms"] = taken(network.reduce(4 * parameters, 2))
        size = {"units": 8, "batch": 64, "parameters": parameters}
        cases.append({**size, "alone_ms": alone, "teams": {"2": team}})
    found = scaling_table.network_of(cases)
    assert (found.bytes_a_ms, found.latency_ms) == pytest.approx((2e6, 0.05))
    line = scaling_table.compute_of(cases[0])
    assert (line.fixed, line.each) == pytest.approx((5, 0.5))
    text = scaling_table.measured_table({"machine": {"cores": 2}, "scaling": cases})
    assert "| 8 | 4.00 | 2 | 21.0 | 2.10 | 23.3 | 30.0 (27.0 to 33.0) | 1.23 |" in text


def test_what_the_docs_say_of_scaling_is_recorded_or_worked_out_from_records(scaling_table):
    record = json.loads((FOLDER / "results" / "scaling.json").read_text())
    docs = (FOLDER.parent / "docs" / "scale.md").read_text()
    for part in (scaling_table.lines_table, scaling_table.measured_table):
        assert part(record) in docs
    assert scaling_table.worked_out_table() in docs
    said = " ".join(docs.split())
    for part in ("network_line", "accuracy_line", "torchrun_line"):
        assert getattr(scaling_table, part)(record) in said
    for run in scaling_table.WORKED_OUT:
        assert f"{run.parameters():,} parameters" in said
