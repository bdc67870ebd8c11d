"""Figures in the README and in docs/ are those of the records and of the code."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from rda.experiments.catalogue import experiments
from rda.experiments.evidence import Evidence
from rda.experiments.paper import find_table
from rda.experiments.protocol import STUDIES
from rda.experiments.studies import all_readings
from rda.scan.cuda import onchip
from rda.settings import Recipe
from rda.tasks.registry import all_tasks

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks" / "results"
README, KERNELS, RUNS = (
    " ".join((ROOT / name).read_text().split())
    for name in ("README.md", "docs/kernels.md", "docs/runs.md")
)


@pytest.fixture(scope="module")
def evidence():
    return Evidence(ROOT / "results" / "paper")


def parts_of_gpu():
    """The parts of the record of the H200."""
    return json.loads((BENCHMARKS / "h200.json").read_text())["parts"]


def cells_of_grids():
    """Every size of the two grids, with its number of steps."""
    parts = parts_of_gpu()
    for part in (parts["grid"], parts["long"]):
        yield from ({**cell, "time": part["time"]} for cell in part["cells"])


def test_the_sizes_at_which_the_rda_is_slower_on_a_gpu():
    slower = [cell for cell in cells_of_grids() if cell["ratio"] > 1]
    assert {cell["precision"] for cell in slower} == {"fp32", "tf32"}
    units = sorted(cell["units"] for cell in slower)
    most = max(cell["batch"] for cell in slower)
    assert (
        f"It is the slower one at {len(slower)} of them, all in float32 or tf32 with {units[0]} to "
        f"{units[-1]} units and batches of at most {most}: "
    ) in README
    by_time = Counter(cell["time"] for cell in slower)
    said = [
        f"{count} with {time:,} steps, by up to "
        f"{max(cell['ratio'] for cell in slower if cell['time'] == time) - 1:.0%}"
        for time, count in by_time.items()
    ]
    assert ", and ".join(said) in README


def test_the_range_of_sizes_that_were_compared():
    cells = list(cells_of_grids())
    units, batches = ([cell[name] for cell in cells] for name in ("units", "batch"))
    assert (
        f"from {min(units)} to {max(units)} units and batches of {min(batches)} to {max(batches)}"
    ) in README


def test_how_often_auto_takes_a_slow_engine():
    cells = parts_of_gpu()["engines"]["cells"]
    times = [{name: each["median"] for name, each in cell["training"].items()} for cell in cells]
    slow = [
        cell
        for cell, each in zip(cells, times, strict=True)
        if each[cell["engine"]] > 1.1 * min(each.values())
    ]
    assert f"slower by more than a tenth at {len(slow)} of {len(cells)} sizes" in KERNELS


def test_where_the_time_of_a_step_goes():
    """In docs/kernels.md: of the engines `cuda` and `grid` by kernel, of `graph` by pass."""

    def microseconds(step, name):
        found = (one for one in step["kernels"] if name in one["name"])
        return sum(one["microseconds"] for one in found)

    steps = {(one["engine"], one["precision"]): one for one in parts_of_gpu()["kernels"]["steps"]}
    each = {
        key: [microseconds(one, f"_{way}") / one["time"] for way in ("forward", "backward")]
        for key, one in steps.items()
    }
    forward, backward = each["cuda", "tf32"]
    assert f"takes the kernel {forward:.1f} us forward and {backward:.1f} us backward in tf" in (
        KERNELS
    )
    forward, backward = each["cuda", "fp32"]
    assert f"exact functions, takes {forward:.1f} and {backward:.1f} us" in KERNELS
    forward, backward = each["grid", "bf16"]
    step = steps["grid", "bf16"]
    share = (forward + backward) * step["time"] / step["microseconds"]
    assert (
        f"{forward:.1f} us a step forward and {backward:.1f} backward, which is {share:.0%} of a"
    ) in KERNELS
    (size,) = parts_of_gpu()["large"]["comparisons"]
    (graph,) = (
        subject
        for subject in size["subjects"]
        if (subject["name"], subject["precision"]) == ("RDA-exp-tanh", "tf32")
    )
    forward, training = (
        1e3 * graph[kind]["median"] / size["time"] for kind in ("forward", "training")
    )
    assert graph["engine"] == "graph"
    assert f"{forward:.0f} us a step forward and {training - forward:.0f} us backward" in KERNELS


def test_the_derived_engines_beside_those_written_by_hand():
    text = (BENCHMARKS / "two_trees.md").read_text()
    on_gpu = text.partition("## Engines written by hand")[2].partition("On a CPU")[0]
    rows = re.findall(r"^\| \d.* \| (.*) \| .* \| .* \| (.*) \|$", on_gpu, re.M)
    ratios = [float(ratio) for layer, ratio in rows if not layer.startswith("nn.")]
    assert len(ratios) > 30
    assert f"took {min(ratios):.2f} to {max(ratios):.2f} of the time" in KERNELS


def test_the_size_of_a_step_and_the_cost_of_large_clusters():
    assert f"a step is {3 * 250 * 250 * 100 / 1e6} million multiplications" in KERNELS
    cost = onchip.COST_OF_MANY
    assert cost["tf32"] == cost["fp32"]
    assert (
        f"a step of {onchip.MANY_ROWS} rows takes {cost['fp32']} times as long as one of "
        f"{onchip.FEW_ROWS}, in bf16 {cost['bf16']} times"
    ) in KERNELS


def test_single_steps_on_a_cpu():
    stream = json.loads((BENCHMARKS / "cpu.json").read_text())["streaming_us"]
    taken = {name: f"{times['median']:.0f}" for name, times in stream["times"].items()}
    assert (
        f"one row of {stream['units']} units without gradients, in the recorded run: `rda.RDACell` "
        f"{taken['RDACell']} microseconds and nn.LSTMCell {taken['nn.LSTMCell']}; a layer that is "
        f"called for every step {taken['RDA, one step a call']}, and nn.LSTM "
        f"{taken['nn.LSTM, one step a call']}."
    ) in README


def test_the_figures_behind_which_unit_to_try(evidence):
    steps = {unit: cell.median for unit, cell in evidence.cells(find_table("multicopy")).items()}
    both = [steps["RDA-exp-tanh"], steps["RDA-sigmoid-id"]]
    beside = [steps[unit] / own for unit in ("GRU", "LSTM") for own in both]
    beside_rwa = [steps["RWA"] / own for own in both]
    assert (
        f"{min(beside):.1f} to {max(beside):.1f} times as fast as GRU and LSTM, "
        f"{min(beside_rwa):.0f} to {max(beside_rwa):.0f} times as fast as the RWA"
    ) in README
    text = evidence.cells(find_table("wikipedia"))
    lstm, gru, sigmoid = (text[unit] for unit in ("LSTM", "GRU", "RDA-sigmoid-id"))
    assert (
        f"Wikipedia: {lstm.middle}, {gru.middle} and {sigmoid.middle} bits per character here"
    ) in README
    assert f"{lstm.published}, {gru.published} and {sigmoid.published} in the paper" in README
    addition = evidence.cells(find_table("addition"))
    ours = sorted(addition, key=lambda unit: addition[unit].median)
    theirs = sorted(addition, key=lambda unit: addition[unit].published.value)
    assert set(ours[:2]) == set(theirs[:2]) == {"RDA-exp-tanh", "RWA"}


def test_every_run_of_the_papers_own_tables_and_studies_is_recorded(evidence):
    ours = {study.name for study in STUDIES}
    of_the_paper = [name for name in experiments() if name not in ours]
    assert {"table-1", "table-7", "activations", "lemma-1"} <= set(of_the_paper)
    missing = [run.name for name in of_the_paper for run in evidence.runs_of(name) if not run.done]
    assert missing == []
    assert (
        "all runs of Tables 1 to 7, of section 6.2 and of Lemma 1 are recorded. Of our own "
        "readings of what the paper leaves open, some were not tried, and some with a few units or "
        "one seed alone; the report shows what was run."
    ) in README
    tried = [reading for _, found in all_readings(evidence) for reading in found]
    parts = [[cell for cell in reading.cells if cell.outcomes] for reading in tried]
    assert [] in parts
    assert any(0 < len(run) < len(one.cells) for run, one in zip(parts, tried, strict=True))
    assert any(len(cell.outcomes) < cell.wanted for run in parts for cell in run)
    assert "not run" in (ROOT / "docs" / "report" / "report.md").read_text()


def test_the_speed_of_a_unit_of_ones_own():
    """docs/units.md has the record's rows in tf32."""
    (record,) = (
        each
        for each in json.loads((BENCHMARKS / "own_unit_gpu.json").read_text())["own_unit"]
        if each["precision"] == "tf32"
    )
    size = record["case"]
    page = (ROOT / "docs" / "units.md").read_text()
    said = "at {units} units, batch {batch} and {time} steps in tf32".format(**size)
    assert said in " ".join(page.split())
    times = {name: each["median"] for name, each in record["subjects"].items()}
    for name in times:
        if "Peephole" in name:
            named = f"`{name}`" if name.startswith("rda.") else name
            ratio = times["nn.LSTM"] / times[name]
            assert f"| {named} | {times[name]:.2f} | {ratio:.2f} |" in page
    assert f"| `nn.LSTM` (cuDNN, without peepholes) | {times['nn.LSTM']:.2f} | 1 |" in page


def test_which_tasks_have_a_recipe_of_their_own():
    def common(recipe):
        names = ("learning_rate", "schedule", "warmup_steps", "clip", "clip_norm", "weight_decay")
        return [getattr(recipe, name) for name in names]

    others = {
        name for name, task in all_tasks().items() if common(task.full().recipe) != common(Recipe())
    }
    assert others == {"wikipedia", "text"}
    assert (
        "clipped by value to [-1, 1]. Only `wikipedia` ([paper.md](paper.md)) and `text` "
        "([text.md](text.md)) have recipes of their own."
    ) in RUNS
