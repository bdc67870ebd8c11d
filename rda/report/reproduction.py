"""The paper beside our runs: everything that the page and the Markdown of `rda report` show."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rda.analysis import inspection
from rda.analysis.inspection import Inspection
from rda.analysis.lemma import Demand
from rda.experiments.catalogue import ACTIVATION_TASKS, LEMMA_LENGTHS, LEMMA_UNITS
from rda.experiments.claims import Claim, Verdict, tally, verdicts
from rda.experiments.evidence import Cell, Evidence
from rda.experiments.lines import train_line
from rda.experiments.paper import TABLES, Table
from rda.experiments.plan import Planned
from rda.experiments.protocol import RDAS, Study
from rda.experiments.studies import Distance, Reading, all_readings
from rda.labels import RDA_LABELS
from rda.report.colours import unit_colours
from rda.report.curves import Curve, Panel, panel_of
from rda.report.points import over_steps
from rda.report.reading import read_run
from rda.report.wording import MISSING, duration, shown
from rda.training.record import Record
from rda.training.status import RecordError
from rda.wording import counted

INSPECTED = "multicopy"
"""The task on which the inside of a unit is shown."""
DEMAND = Demand(c=0.5, largest=1.0)
"""What the lemma is drawn for: outputs of one half from features of at most one."""
BITS_DRAWN = 1.0
"""How far above the best bits the picture goes: units that learn are hundredths apart."""


@dataclass(frozen=True)
class TableView:
    """A table of the paper with our numbers."""

    table: Table
    title: str
    cells: tuple[Cell, ...]
    panel: Panel | None
    """Learning curves, one run for each unit; None without any run."""
    cost: str
    """What the missing runs would take, by the records; empty where none is missing."""
    characters_per_step: int
    """How much of a text a training step reads; 0 for a task that reads none."""

    @property
    def departures(self) -> list[str]:
        """The settings in which its runs are not as section 6.1 says."""
        own = (cell for cell in self.cells if cell.kind == "another recipe")
        return list(dict.fromkeys(name for cell in own for name in cell.departures))

    @property
    def note(self) -> str:
        """The departures as a sentence; empty where there are none."""
        told = ", ".join(self.departures).replace("_", " ")
        return f"Not as section 6.1 says: {told}." if told else ""


@dataclass(frozen=True)
class LemmaRow:
    """One unit on one length of the alternating task."""

    unit: str
    length: int
    cell: Cell
    highest: float | None
    """The highest attention logit of the first run, while it read one sequence."""


@dataclass(frozen=True)
class RunRow:
    """One run behind the numbers."""

    name: str
    state: str
    result: str
    steps: int
    time: str
    hardware: str
    commit: str
    command: str


@dataclass(frozen=True)
class Reproduction:
    """All of it."""

    tables: tuple[TableView, ...]
    claims: tuple[tuple[Claim, Verdict], ...]
    activations: dict[str, tuple[Cell, ...]]
    lemma: tuple[LemmaRow, ...]
    lemma_panel: Panel
    inspected: Inspection | None
    studies: list[tuple[Study, list[Reading]]]
    runs: tuple[RunRow, ...]
    seconds: float
    """Seconds of training behind all runs."""

    @property
    def cells(self) -> list[Cell]:
        """The 35 cells of Tables 1 to 7."""
        return [cell for view in self.tables for cell in view.cells]

    @property
    def headline(self) -> str:
        """How much is as published, in a few sentences. Numbers that were trained by another recipe
        than the paper's are counted apart."""
        own = [view for view in self.tables if view.departures]
        kinds = [cell.kind for view in self.tables if view not in own for cell in view.cells]
        words = ("better", "worse", "not run")
        rest = "".join(f", {kinds.count(one)} are {one}" for one in words if one in kinds)
        text = (
            f"{kinds.count('as published')} of the {len(kinds)} numbers in "
            f"{_numbered(view for view in self.tables if view not in own)} are as published{rest}"
        )
        if own:
            numbers = sum(len(view.cells) for view in own)
            text += f"; the {numbers} of {_numbered(own)} were trained with a recipe of our own"
        judged = tally(verdict for _, verdict in self.claims)
        return f"{text}. {len(self.claims)} claims: {judged}."

    @property
    def short(self) -> list[str]:
        """Which cells have fewer runs than we ask for, and what the rest of a table costs."""
        lines = []
        for view in self.tables:
            missing = [f"{cell.unit} {cell.missing}" for cell in view.cells if cell.missing]
            if missing:
                lines.append(f"{view.title}: {'; '.join(missing)}. {view.cost}")
        return lines


def _numbered(views: Iterable[TableView]) -> str:
    """Tables that follow each other, in words."""
    numbers = [view.table.number for view in views]
    return f"Tables {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"Table {numbers[0]}"


def build_reproduction(folder: Path) -> Reproduction:
    """Read all runs of the paper's experiments in a folder of runs."""
    evidence = Evidence(folder)
    recorded = [run for run in evidence.plan.values() if run.status is not None]
    return Reproduction(
        tables=tuple(_table(evidence, table) for table in TABLES),
        claims=tuple(verdicts(evidence)),
        activations={
            task: tuple(evidence.activation(task, unit) for unit in RDA_LABELS)
            for task in ACTIVATION_TASKS
        },
        lemma=tuple(_lemma_rows(evidence)),
        lemma_panel=_lemma_panel(evidence),
        inspected=_inspected(evidence),
        studies=all_readings(evidence),
        runs=tuple(_run_row(evidence, run) for run in recorded),
        seconds=sum(run.status.seconds for run in recorded if run.status is not None),
    )


def _table(evidence: Evidence, table: Table) -> TableView:
    cells = tuple(evidence.cells(table).values())
    names = [name for cell in cells if (name := _typical(evidence, cell)) is not None]
    panel = _panel(evidence, table, names)
    cost, characters = _cost(evidence, table), _characters_per_step(evidence, table)
    return TableView(table, f"Table {table.number}", cells, panel, cost, characters)


def _characters_per_step(evidence: Evidence, table: Table) -> int:
    settings = evidence.runs_of(table.name)[0].settings
    segment: int = getattr(settings.task, "segment", 0)
    return segment * settings.recipe.batch_size


def _cost(evidence: Evidence, table: Table) -> str:
    missing = sum(run.missing for run in evidence.runs_of(table.name))
    seconds, unknown = evidence.cost_left(table.name)
    if not missing:
        return ""
    runs = f"{counted(missing, 'run')} {'is' if missing == 1 else 'are'} missing"
    if unknown == missing:
        return f"{runs}; the cost is not known: none of this task is recorded."
    more = f", without {unknown} of which none is recorded" if unknown else ""
    return f"{runs}, about {duration(seconds)} on the recorded hardware{more}."


def _typical(evidence: Evidence, cell: Cell) -> str | None:
    """The run whose result is the median of its unit's runs."""
    values = [(one.value, one.name) for one in cell.outcomes if not one.problem]
    if not values or cell.median is None:
        return None
    return min(values, key=lambda pair: (pair[0] != cell.median, pair[1]))[1]


def _panel(evidence: Evidence, table: Table, names: Sequence[str]) -> Panel | None:
    """As in Appendix B: the loss, or for MNIST the accuracy on the validation data. For text, the
    bits on it."""
    runs = []
    for record in evidence.records(names).values():
        try:
            runs.append(read_run(record))
        except RecordError:
            continue  # `rda show` says why; a report shows what can be read
    if not runs:
        return None
    if table.measure == "goal_step":
        return panel_of("loss", runs)
    reach = BITS_DRAWN if table.measure == "bits" else math.inf
    return panel_of(f"validation_{table.measure}", runs, reach)


def _lemma_rows(evidence: Evidence) -> list[LemmaRow]:
    return [
        LemmaRow(
            unit,
            length,
            evidence.lemma(unit, length),
            evidence.highest_attention(unit, length),
        )
        for unit in LEMMA_UNITS
        for length in LEMMA_LENGTHS
    ]


def _lemma_panel(evidence: Evidence) -> Panel:
    """What the lemma demands over time, and the attention of trained units."""
    colours = unit_colours(LEMMA_UNITS)
    steps = 40
    curves = [
        Curve("needed", "#6b7280", over_steps(DEMAND.log_attention(steps))),
        Curve("bound of Lemma 1", "#6b7280", over_steps(DEMAND.log_bound(steps)), dash=(4, 2)),
    ]
    for unit in LEMMA_UNITS:
        found = evidence.lemma_inspection(unit, steps)
        if found is not None:
            curves.append(
                Curve(f"trained {unit}", colours[unit], over_steps(found.highest_attention))
            )
    return Panel("log attention", tuple(curves), linear=True)


def _inspected(evidence: Evidence) -> Inspection | None:
    """Of the first RDA whose inside is recorded."""
    for unit in RDAS:
        for outcome in evidence.cell(INSPECTED, unit).outcomes:
            found = inspection.read(evidence.folder / outcome.name)
            if found is not None:
                return found
    return None


def _run_row(evidence: Evidence, run: Planned) -> RunRow:
    assert run.status is not None
    status = run.status
    start = _last_start(evidence.folder / run.name)
    metric = run.settings.task.metric
    test = status.test.get(f"test_{metric}")
    goal = "" if status.goal_step is None else f"goal at {status.goal_step:,}"
    result = f"{metric} {test:.4f} on the test data" if test is not None else goal or MISSING
    git = start.get("git")
    commit = git.get("commit") if isinstance(git, dict) else None
    return RunRow(
        name=run.name,
        state=f"{status.state}, {status.reason}" if run.failed else status.state,
        result=result,
        steps=status.step,
        time=duration(status.seconds or None),
        hardware=shown(start.get("gpu") or start.get("processor")),
        commit=shown(commit)[:7],
        command=" ".join(["rda", *train_line(run.settings)]),
    )


def _last_start(folder: Path) -> dict[str, object]:
    try:
        starts = Record(folder).environment
    except RecordError:
        return {}
    return starts[-1] if starts else {}


def factor(found: Distance | None) -> str:
    """A distance from the paper."""
    return MISSING if found is None else str(found)
