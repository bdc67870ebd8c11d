"""Write again what this repository says about its recorded runs; nothing is trained.

    .venv/bin/python tools/publish.py

The README of results/, the results in the README, the demo's picture and page in docs/demo, the
report on the paper in docs/report, the pictures of docs/how-it-works.md, and what the README and
docs/text.md say about the model that comes with the package: nothing, where there is none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from card import CARD, render_card, tested_bits

import rda
from rda.analysis import inspection
from rda.commands.finding import trained_on
from rda.experiments.catalogue import chosen, experiments, runs_by_name
from rda.report.colours import unit_colours
from rda.report.comparison import Comparison, build_comparison
from rda.report.curves import Curve, Panel
from rda.report.figure import draw_panels
from rda.report.inspection import render_inspection
from rda.report.markdown import render_markdown
from rda.report.points import over_steps
from rda.report.reproduction import Reproduction, build_reproduction
from rda.report.reproduction_markdown import render_results
from rda.report.writing import write_report, write_reproduction
from rda.training.record import Record, run_folders
from rda.wording import counted

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
START, END = "<!-- made by tools/publish.py -->\n", "<!-- end -->\n"
MODEL_START = "<!-- the model that comes with the package, made by tools/publish.py -->\n"
WORDS = {
    "gpu": "",
    "cuda": "CUDA ",
    "torch": "torch ",
    "python": "Python ",
    "rda": "rda ",
    "processor": "",
    "threads": "threads: ",
    "git": "commit ",
}
INTRODUCTION = """\
# Recorded runs

Training runs, as `rda` wrote them: settings, environment, curves, timing and how each one ended
([docs/runs.md](../docs/runs.md)), without checkpoints and weights. `rda runs --runs-dir
results/demo` lists the runs of a folder, `rda show NAME --runs-dir results/demo` shows one.

This file, the picture and the page in [docs/demo](../docs/demo), the report in
[docs/report](../docs/report) and the results in the README are made from the records by
`python tools/publish.py`; nothing is trained again. docs/demo/page.png is a screenshot of that
page, 1000 pixels wide, in a browser.

The `manifest.sha256` of these runs has neither `samples.jsonl` nor what was made of a run when it
had ended (`inspection.json`, `intervals.json`). These are in [later.sha256](later.sha256), whose
digests were taken on 19 November 2026: they say that a file is as it was that day, and nothing of
the days before. `python3 tools/recompute.py` compares every file with its digest, and makes Tables
1 to 7 once more from the raw records, without anything of `rda`.

## demo

The runs that the README and [docs/demo](../docs/demo) show: the small twin of multiple sequence
copy, which a CPU trains in minutes.
"""
PAPER = """\
## paper

The runs of `rda reproduce` at the paper's sizes, each curve thinned to about 300 steps
([docs/reproduction.md](../docs/reproduction.md)). Tables, curves and claims made from them are in
[docs/report](../docs/report/report.md).
"""
SEQUENCES = """\
## sequences

The runs behind the forecasts in [docs/sequences.md](../docs/sequences.md), thinned too. Their data
is the weekly CO2 of Mauna Loa that comes with statsmodels:

    python -c "import statsmodels.api as sm
    sm.datasets.co2.load_pandas().data.to_csv('co2.csv', index_label='date')"
    rda compare --data co2.csv --horizon 26 --seeds 2 --sizes "" --threads 1
"""
AGAIN = """\
## again

Runs of `paper` that were trained a second time from the settings in their records, on the same
kind of GPU. Sums over a batch may be taken in another order, so that a second run is not the first
to the bit.
"""
VERSIONS = ("torch", "python", "rda")
LOOKED_INTO = {"rda.png": "multicopy-RDA-exp-tanh-seed0", "rwa.png": "multicopy-RWA-seed0"}
"""The pictures of docs/how-it-works.md, and the runs that they show."""
MODEL_IN_README = """\
A model of text comes with the package ({unit}, trained on {text}, {bits} bits per character on its
test part; [its card](rda/pretrained/wikipedia/README.md)). It writes at once, without training:
`rda generate --prompt "The city of "`.
"""
MODEL_IN_TEXT = """\
## Without training

A model comes with the package: {unit} with {units:,} units, trained on {text}, {bits} bits per
character on its test part. `rda generate` and `rda evaluate` use it where they are given no run:

    rda generate --prompt "The city of " --temperature 0.7
    rda evaluate --file other.txt

From Python it is `rda.load(rda.PRETRAINED)`. It has no name among runs, so that it cannot be
mistaken for one: `rda generate wikipedia` is a run of yours that is called so. How it was trained,
the licence of its text, and what it is not good for are on
[its card](../rda/pretrained/wikipedia/README.md).
"""


def read(runs: Path) -> list[Record]:
    """The records of a folder of runs."""
    return [Record(folder) for folder in run_folders(runs)]


def render_demo(records: Sequence[Record]) -> str:
    """The command, the machine and the table of the demo."""
    comparison = build_comparison(records)
    parts = [f"    {demo_command(comparison)}", hardware(comparison.environment)]
    parts += [render_markdown(comparison)]
    parts += ["Time is that of training, without evaluation and saving."]
    return "\n\n".join(parts)


def hardware(environment: Mapping[str, str]) -> str:
    """The machine and the versions that all runs have in common."""
    known = dict(environment)
    if "git" in known:
        known["git"] = f"`{known['git'][:7]}`"
    facts = told(known, "gpu", "cuda", "torch", "python", "processor", "threads", "git")
    return f"{facts}." if facts else "Not all of these ran on the same machine."


def told(environment: Mapping[str, object], *names: str) -> str:
    """What is known of these, in words."""
    return ", ".join(f"{WORDS[name]}{environment[name]}" for name in names if name in environment)


def demo_command(comparison: Comparison) -> str:
    """The one command that made all runs."""
    (command,) = {start["command"] for row in comparison.rows for start in row.starts}
    return command


def render_index(folder: Path = RESULTS) -> str:
    """The README of the recorded runs: what each set is, where it ran, and with which command."""
    parts = [INTRODUCTION.rstrip(), render_demo(read(folder / "demo")), PAPER.rstrip()]
    parts += ["    rda reproduce all --thin", recorded_of(folder / "paper")]
    parts += [starts_of(read(folder / "paper")), machines_of(read(folder / "paper"))]
    parts += [AGAIN.rstrip(), render_again(folder), machines_of(read(folder / "again"))]
    parts += [SEQUENCES.rstrip(), machines_of(read(folder / "sequences"))]
    return "\n\n".join(parts) + "\n"


def recorded_of(folder: Path) -> str:
    """How many runs of the paper and of our own studies are recorded."""
    recorded = {run.name for run in run_folders(folder)}
    of_the_paper = set(runs_by_name(chosen(["all"])))
    of_ours = set(runs_by_name(experiments().values())) - of_the_paper
    return (
        f"Recorded are {len(recorded & of_the_paper)} of the {len(of_the_paper)} runs of this "
        f"command, and {len(recorded & of_ours)} of the {len(of_ours)} more of our own studies "
        "(`rda reproduce study-... --thin`)."
    )


def starts_of(records: Sequence[Record]) -> str:
    """How many runs were continued, and how many shared the GPU."""
    runs = [record.environment for record in records]
    commits = [{start["git"]["commit"] for start in starts} for starts in runs]
    most = max(start.get("runs_at_once") or 1 for starts in runs for start in starts)
    return (
        f"{sum(len(starts) > 1 for starts in runs)} of these runs were stopped and started again, "
        f"{sum(len(found) > 1 for found in commits)} of them by another commit of this repository; "
        f"up to {most} at a time shared the GPU. `environment.json` has each start of a run."
    )


def render_again(folder: Path) -> str:
    """Goal steps of the runs that were trained twice, beside the range over their seeds."""
    lines = ["| run | step of the goal | again | all seeds |", "|---|---:|---:|---|"]
    for second in read(folder / "again"):
        seeds = folder.glob(f"paper/{second.name.partition('-seed')[0]}-seed?")
        steps = sorted(goal_step(Record(run)) for run in seeds)
        first = goal_step(Record(folder / "paper" / second.name))
        lines.append(
            f"| {second.name} | {first:,} | {goal_step(second):,} | {steps[0]:,} to {steps[-1]:,} |"
        )
    return "\n".join(lines)


def goal_step(record: Record) -> int:
    """The step at which a run reached its goal."""
    step = record.status.goal_step
    if step is None:
        raise ValueError(f"run {record.name} did not reach its goal")
    return step


def machines_of(records: Sequence[Record]) -> str:
    """How many runs there are, and on which machines and versions they ran."""
    starts = [record.environment[-1] for record in records]
    machines = Counter(
        told(start, *(("gpu", "cuda") if start.get("gpu") else ("processor", "threads")), *VERSIONS)
        for start in starts
    )
    return "\n".join(
        f"- {counted(count, 'run')}: {text}." for text, count in machines.most_common()
    )


def with_results(readme: str, paper: Reproduction) -> str:
    """The README with its results written again."""
    return with_part(readme, START, render_results(paper))


def with_model(document: str, words: str, folder: Path) -> str:
    """A document with its words on the packaged model; without any where there is no model."""
    if not folder.is_dir():
        return with_part(document, MODEL_START, "")
    record = Record(folder)
    facts = {
        "unit": record.settings.unit,
        "units": record.settings.recipe.hidden_size,
        "text": trained_on(record),
        "bits": tested_bits(record),
    }
    return with_part(document, MODEL_START, words.format(**facts))


def with_part(document: str, start: str, text: str) -> str:
    """A document with the part between two comments written again."""
    before, _, rest = document.partition(start)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"there is no part between {start.strip()} and {END.strip()}")
    part = f"\n{text}\n" if text else ""
    return f"{before}{start}{part}{END}{after}"


def draw_units(runs: Path, to: Path) -> None:
    """What trained units do, and how the weight of their averages grows."""
    curves = []
    for name, run in LOOKED_INTO.items():
        found = inspection.read(runs / run)
        assert found is not None, f"nobody has looked into {run}"
        (to / name).write_bytes(render_inspection(found))
        colour = unit_colours((found.unit,))[found.unit]
        curves.append(Curve(found.unit, colour, over_steps(found.highest_weight)))
    panel = Panel("log d", tuple(curves), linear=True)
    (to / "weight.png").write_bytes(draw_panels([("highest log d of all units", panel)]))


def publish() -> None:
    """Write all of it."""
    (RESULTS / "README.md").write_text(render_index())
    demo = build_comparison(read(RESULTS / "demo"))
    write_report(DOCS / "demo", demo, demo_command(demo))
    paper = build_reproduction(RESULTS / "paper")
    write_reproduction(DOCS / "report", paper)
    draw_units(RESULTS / "paper", DOCS / "pictures")
    readme = ROOT / "README.md"
    text = with_results(readme.read_text(), paper)
    readme.write_text(with_model(text, MODEL_IN_README, rda.PRETRAINED))
    page = DOCS / "text.md"
    page.write_text(with_model(page.read_text(), MODEL_IN_TEXT, rda.PRETRAINED))
    if rda.PRETRAINED.is_dir():
        (rda.PRETRAINED / CARD).write_text(render_card(rda.PRETRAINED))


if __name__ == "__main__":
    publish()
