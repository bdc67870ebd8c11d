"""Whole training runs, as they are recorded in results/: tables, and the pages made from them.

python benchmarks/end_to_end.py    writes results/README.md, and picture and page of docs/demo
"""

from collections.abc import Sequence
from pathlib import Path

from rda.report.comparison import Comparison, build_comparison
from rda.report.markdown import escaped, render_markdown
from rda.report.writing import write_report
from rda.training.record import Record, run_folders

ROOT = Path(__file__).parents[1]
RESULTS, DEMO = ROOT / "results", ROOT / "docs" / "demo"
SETS = {
    "demo": "The runs that the README and [docs/demo](../docs/demo) show: the small twin of "
    "multiple sequence copy, which a CPU trains in minutes.",
    "h200": "Two of the paper's tasks at its sizes, one seed each, on a GPU. Also in "
    "[benchmarks/README.md](../benchmarks/README.md).",
}
HARDWARE = {
    "gpu": "",
    "cuda": "CUDA ",
    "torch": "torch ",
    "python": "Python ",
    "processor": "",
    "threads": "threads: ",
    "git": "commit ",
}
INTRODUCTION = """\
# Recorded runs

Whole training runs, as `rda` wrote them: settings, environment, every step, timing and how each
one ended ([docs/runs.md](../docs/runs.md)), without checkpoints and weights. `rda runs --runs-dir
results/demo` lists the runs of a folder, `rda show NAME --runs-dir results/demo` shows one.

This file, and the picture and the page in [docs/demo](../docs/demo), are made from the records by
`python benchmarks/end_to_end.py`; nothing is trained again. docs/demo/page.png is a screenshot of
that page, 1000 pixels wide, in a browser.
"""


def read(runs: Path) -> list[Record]:
    """The records of a folder of runs."""
    return [Record(folder) for folder in run_folders(runs)]


def compare(records: Sequence[Record]) -> list[Comparison]:
    """One comparison for each task, by the name of the task."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.settings.task.name):
        groups.setdefault(record.settings.task.name, []).append(record)
    return [build_comparison(group) for group in groups.values()]


def render(records: Sequence[Record]) -> str:
    """The machine and one table for each task, as Markdown."""
    comparisons = compare(records)
    parts = [hardware(comparisons)]
    for comparison in comparisons:
        parts.append(f"### {escaped(comparison.task.title)}\n\n{render_markdown(comparison)}")
    parts.append("Time is that of training, without evaluation and saving.")
    return "\n\n".join(parts)


def hardware(comparisons: Sequence[Comparison]) -> str:
    """The machine and the versions, if all runs have them in common."""
    first, *others = [comparison.environment for comparison in comparisons]
    known = {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }
    if "git" in known:
        known["git"] = f"`{known['git'][:7]}`"
    facts = [f"{text}{known[name]}" for name, text in HARDWARE.items() if name in known]
    return f"{', '.join(facts)}." if facts else "Not all of these ran on the same machine."


def commands(comparisons: Sequence[Comparison]) -> list[str]:
    """The commands that made the runs, each once."""
    starts = [start for each in comparisons for row in each.rows for start in row.starts]
    return list(dict.fromkeys(start["command"] for start in starts if "command" in start))


def render_index(sets: dict[str, str] = SETS, folder: Path = RESULTS) -> str:
    """The README of the recorded runs: what each set is, where it ran, and with which command."""
    parts = [INTRODUCTION.rstrip()]
    for name, description in sets.items():
        records = read(folder / name)
        made = "\n".join(f"    {command}" for command in commands(compare(records)))
        parts.append(f"## {name}\n\n{description}\n\n{made}\n\n{render(records)}")
    return "\n\n".join(parts) + "\n"


def publish() -> None:
    """Write the README of results/ and the report of docs/demo."""
    (RESULTS / "README.md").write_text(render_index())
    records = read(RESULTS / "demo")
    (command,) = commands(compare(records))
    write_report(DEMO, build_comparison(records), command)


if __name__ == "__main__":
    publish()
