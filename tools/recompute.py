"""Tables 1 to 7 once more, from the raw records with the standard library alone.

    python3 tools/recompute.py

Nothing of rda is imported, and the published numbers are written here a second time, so that a
fault of the report is not repeated. The step of a goal is that of the first batch past it in
`metrics.jsonl`; batches that a thinned record did not keep cannot be looked at again, so it has to
be the step that the status names. Every file of every run has to be as it was sealed. Ends with 1
and a line for each thing that does not agree.
"""

import hashlib
import json
import math
import operator
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MANIFEST, LATER = "manifest.sha256", "later.sha256"
"""A run's own, and the one in results/ of files that came after those."""
UNITS = ("GRU", "LSTM", "RDA-exp-tanh", "RDA-sigmoid-id", "RWA")
SECTION_6_1 = {"hidden_size": 250, "batch_size": 100, "learning_rate": 0.001, "clip": 1.0}
WIKIPEDIA = {"hidden_size": 1800}
"""All that a recipe holds of what section 6.1 says about it."""
COMPARISONS = {"<": operator.lt, ">": operator.gt, "=": operator.eq}

Run = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of the paper, its numbers in the order of UNITS."""

    task: str
    title: str
    seeds: int
    measure: str
    """A column of the metrics; with a comparison and a number it is a goal for each batch."""
    decimals: int
    published: str

    @property
    def column(self) -> str:
        """The column of the metrics."""
        return self.measure.split()[0]

    def reached(self, row: dict[str, float]) -> bool:
        """Whether a batch is past the goal."""
        column, comparison, limit = self.measure.split()
        return column in row and COMPARISONS[comparison](row[column], float(limit))

    def show(self, value: float, limit: int) -> str:
        """A number as the README and the report show it."""
        return f"> {limit:,}" if math.isinf(value) else f"{value:,.{self.decimals}f}"


TABLES = [
    Table("addition", "Addition", 5, "loss < 0.001", 0, "2,036 >10,000 1,781 2,016 1,735"),
    Table("classify-length", "Classify length", 5, "accuracy = 1.0", 0, "71 776 164 414 133"),
    Table("mnist", "MNIST", 3, "accuracy", 4, "0.985 0.114 0.985 0.987 0.979"),
    Table("mnist-permuted", "MNIST permuted", 3, "accuracy", 4, "0.944 0.915 0.905 0.913 0.899"),
    Table("copy", "Copy", 3, "accuracy > 0.999", 0, "5,329 >20,000 11,831 9,840 5,660"),
    Table(
        *("multicopy", "Multiple sequence copy", 5, "accuracy > 0.99", 0),
        published="3,984 4,048 1,114 1,316 >10,000",
    ),
    Table("wikipedia", "Hutter Prize Wikipedia", 3, "bits", 3, "1.535 1.492 1.532 1.529 5.067"),
]


@dataclass(frozen=True)
class Cell:
    """A published number and our runs' median and range, as they are shown."""

    table: Table
    unit: str
    published: str
    median: str
    range: str


def read(folder: Path) -> Run:
    """The raw files of a run."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {
        **tomllib.loads((folder / "settings.toml").read_text()),
        "status": json.loads((folder / "status.json").read_text()),
        "rows": [json.loads(line) for line in lines],
    }


def result_of(table: Table, run: Run) -> tuple[float, bool]:
    """A run's result by its rows, and whether its status says the same."""
    status, column = run["status"], table.column
    if table.measure != column:
        step = next((row["step"] for row in run["rows"] if table.reached(row)), None)
        return math.inf if step is None else float(step), step == status["goal_step"]
    evaluated = [row for row in run["rows"] if f"validation_{column}" in row]
    choose = max if column == "accuracy" else min
    best = choose(evaluated, key=lambda row: row[f"validation_{column}"])
    return status["test"][f"test_{column}"], best == {"step": status["best_step"], **status["best"]}


def misfits(table: Table, unit: str, seed: int, run: Run) -> Iterator[str]:
    """What a run is not that its table asks for."""
    recipe, status = run["recipe"], run["status"]
    if (run["task"]["name"], run["unit"], recipe["seed"]) != (table.task, unit, seed):
        yield "it has the settings of another run"
    wanted = WIKIPEDIA if table.task == "wikipedia" else SECTION_6_1
    yield from (f"{name} is {recipe[name]}" for name in wanted if recipe[name] != wanted[name])
    if status["state"] not in ("finished", "stopped") or status["skipped_steps"]:
        yield f"it is {status['state']} and skipped {status['skipped_steps']} steps"
    if run["rows"][-1]["step"] != status["step"]:
        yield f"its metrics do not end at step {status['step']}"
    if not result_of(table, run)[1]:
        yield "its metrics have another goal or best evaluation than its status"


def cell_of(table: Table, unit: str, runs: list[Run]) -> Cell:
    """Median and range; of an even number of runs the worse one of the middle two."""
    values = sorted(result_of(table, run)[0] for run in runs)
    worse = statistics.median_low if table.measure == "accuracy" else statistics.median_high
    limit = max(run["status"]["step"] for run in runs)
    first, median, last = (
        table.show(value, limit) for value in (values[0], worse(values), values[-1])
    )
    published = table.published.split()[UNITS.index(unit)].replace(">", "> ")
    return Cell(table, unit, published, median, "" if first == last else f"{first} to {last}")


def recomputed(folder: Path) -> tuple[list[Cell], list[str]]:
    """All cells of all tables, and what does not agree within the records."""
    cells, wrong = [], []
    for table in TABLES:
        shared: dict[tuple[str, str], Any] = {}
        for unit in UNITS:
            names = sorted(path.name for path in folder.glob(f"{table.task}-{unit}-seed[0-9]"))
            runs = [read(folder / name) for name in names]
            cells.append(cell_of(table, unit, runs))
            if len(names) != table.seeds:
                wrong.append(f"{table.task}, {unit}: {len(names)} runs, not {table.seeds}")
            for seed, (name, run) in enumerate(zip(names, runs, strict=True)):
                wrong += [f"{name}: {what}" for what in misfits(table, unit, seed, run)]
                for setting in other_than_unit_and_seed(run):
                    if shared.setdefault(setting[:2], setting[2]) != setting[2]:
                        wrong.append(f"{name}: {setting[1]} is {setting[2]}, unlike the others")
    return cells, wrong


def other_than_unit_and_seed(run: Run) -> Iterator[tuple[str, str, Any]]:
    """The settings that the runs of a table share, where their versions know them. What is done
    with gradients that are not finite may differ, as none of these runs had one."""
    for part in ("task", "recipe"):
        for name, value in run[part].items():
            if name not in ("seed", "not_finite"):
                yield part, name, value


def rows_of(text: str) -> list[list[str]]:
    """The rows of all Markdown tables in a text."""
    lines = re.findall(r"^\|(.*)\|$", text, re.M)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def differences_of_readme(cells: list[Cell], text: str) -> Iterator[str]:
    """Numbers of the README's table that the raw records do not give."""
    rows = rows_of(text)
    units = next((row[1:] for row in rows if set(row[1:]) == set(UNITS)), [])
    shown = {row[0]: dict(zip(units, row[1:], strict=False)) for row in rows}
    for cell in cells:
        wanted = f"{cell.median} ({cell.published})"
        found = shown.get(cell.table.title, {}).get(cell.unit)
        if found != wanted:
            yield f"README.md, {cell.table.title}, {cell.unit}: {found}, recomputed {wanted}"


def differences_of_report(cells: list[Cell], text: str) -> Iterator[str]:
    """Numbers of the report's tables that the raw records do not give."""
    parts = dict(re.findall(r"^## Table (\d)$(.*?)(?=^## |\Z)", text, re.M | re.S))
    for cell in cells:
        number = TABLES.index(cell.table) + 1
        ours = f"{cell.median} ({cell.range})" if cell.range else cell.median
        wanted = [cell.unit, cell.published, ours]
        if wanted not in [row[:3] for row in rows_of(parts.get(str(number), ""))]:
            yield f"report.md, Table {number}: no row of {' | '.join(wanted)}"


def differences_of_files(results: Path) -> Iterator[str]:
    """Files of runs that are not as they were sealed, or that nothing seals."""
    sealed = {}
    for manifest in [results / LATER, *results.glob(f"*/*/{MANIFEST}")]:
        for line in manifest.read_text().splitlines():
            sealed[manifest.parent / line[66:]] = line[:64]
    for path in sorted({*results.glob("*/*/*"), *sealed}):
        if path.name != MANIFEST and sealed.get(path) != digest_of(path):
            yield f"{path.relative_to(results)} is not as it was sealed, or nothing seals it"


def digest_of(path: Path) -> str:
    """The SHA-256 of a file; empty where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def differences(root: Path) -> tuple[list[Cell], list[str]]:
    """The cells, and all that does not agree."""
    cells, wrong = recomputed(root / "results" / "paper")
    wrong += differences_of_readme(cells, (root / "README.md").read_text())
    wrong += differences_of_report(cells, (root / "docs" / "report" / "report.md").read_text())
    return cells, [*wrong, *differences_of_files(root / "results")]


def main(root: Path = ROOT) -> int:
    """Print the cells, and what does not agree; 1 where something does not."""
    cells, wrong = differences(root)
    for cell in cells:
        numbers = f"{cell.published:>9}{cell.median:>9}  {cell.range}".rstrip()
        print(f"{cell.table.task:16}{cell.unit:15}{numbers}")
    print("\n".join(wrong) or f"{len(cells)} cells agree, and every file with its digest")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
