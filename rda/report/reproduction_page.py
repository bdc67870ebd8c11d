"""The reproduction as one HTML file that asks for nothing else, and as Markdown."""

import base64
from collections.abc import Iterator

from rda.experiments.evidence import FACTOR, MARGIN, Cell
from rda.labels import UNIT_LABELS
from rda.report.chart import over_steps
from rda.report.colours import unit_colours
from rda.report.inspection import render_inspection
from rda.report.markdown import escaped
from rda.report.page import render, resource
from rda.report.reproduction import DEMAND, Reproduction, factor
from rda.report.wording import duration
from rda.settings import Recipe
from rda.tasks import all_tasks


def render_reproduction(paper: Reproduction) -> str:
    """The page as text."""
    picture = None if paper.inspected is None else render_inspection(paper.inspected)
    units = [unit for unit in UNIT_LABELS if _is_shown(paper, unit)]
    tasks = [view.table.task for view in paper.tables]
    return render(
        "reproduction.html",
        style="".join(
            (
                resource("reproduction.css"),
                *(_hiding(f"show-{unit}", _of_unit(unit)) for unit in units),
                *(_hiding(f"task-{task}", f'[data-task="{task}"]') for task in tasks),
            )
        ),
        paper=paper,
        units=units,
        colours=unit_colours(UNIT_LABELS),
        titles={name: task.title for name, task in all_tasks().items()},
        charts=[
            (view, None if view.panel is None else over_steps(view.panel))
            for view in sorted(paper.tables, key=lambda view: view.table.panel)
        ],
        lemma_chart=over_steps(paper.lemma_panel),
        demand=DEMAND,
        hidden=Recipe().hidden_size,
        picture="" if picture is None else base64.b64encode(picture).decode(),
        hours=duration(paper.seconds or None),
        factor_allowed=FACTOR,
        margin=MARGIN,
        as_factor=factor,
    )


def _is_shown(paper: Reproduction, unit: str) -> bool:
    cells = [*paper.cells, *(cell for cells in paper.activations.values() for cell in cells)]
    return any(cell.unit == unit for cell in cells)


def _of_unit(unit: str) -> str:
    """Selects the rows and curves of a unit."""
    return f':is([data-unit="{unit}"], [data-label="{unit}"])'


def _hiding(box: str, what: str) -> str:
    """The rule that hides what belongs to a box that is not checked; it needs no script."""
    return f"body:has(#{box}:not(:checked)) {what} {{ display: none; }}\n"


def render_reproduction_markdown(paper: Reproduction) -> str:
    """The tables, the claims and what is missing."""
    return "\n".join(_lines(paper)) + "\n"


def _lines(paper: Reproduction) -> Iterator[str]:
    yield from ("# The paper, reproduced", "", escaped(paper.headline), "")
    for view in paper.tables:
        yield from (f"## {view.title}", "", escaped(view.table.caption), "")
        yield from results_table(view.cells)
        yield ""
    yield from ("## Claims", "", "| claim | where | verdict | evidence |", "|---|---|---|---|")
    for claim, verdict in paper.claims:
        yield _row(claim.text, claim.place, verdict.judgement, verdict.evidence)
    for task, cells in paper.activations.items():
        yield from ("", f"## Section 6.2 on {task}", "", "| unit | steps to the goal | runs |")
        yield "|---|---:|---:|"
        for cell in cells:
            yield _row(cell.unit, cell.text, f"{len(cell.outcomes)} of {cell.wanted}")
    yield from ("", "## Lemma 1", "")
    yield "| unit | length | steps to learn it | highest log attention |"
    yield "|---|---:|---:|---:|"
    for row in paper.lemma:
        highest = "" if row.highest is None else f"{row.highest:.1f}"
        yield _row(row.unit, str(row.length), row.cell.text, highest)
    yield from ("", "## What the paper leaves open", "")
    yield "| task | settings | steps to the goal | distance | as chosen |"
    yield "|---|---|---|---:|---:|"
    for _, readings in paper.studies:
        for reading in readings:
            steps = ", ".join(f"{cell.unit} {cell.text}" for cell in reading.cells)
            far = factor(reading.distance), factor(reading.chosen_distance)
            yield _row(reading.task, reading.changes, steps, *far)
    if paper.short:
        yield from ("", "## Not run yet", "")
        yield from (f"- {escaped(line)}" for line in paper.short)


def results_table(cells: tuple[Cell, ...]) -> Iterator[str]:
    """One table of the paper beside our numbers."""
    yield "| unit | paper | ours | verdict |"
    yield "|---|---:|---:|---|"
    for cell in cells:
        verdict = cell.kind if cell.kind == "not run" else f"{cell.kind}, {cell.comparison}"
        missing = f"; {cell.missing}" if cell.missing and cell.kind != "not run" else ""
        yield _row(cell.unit, str(cell.published), cell.text, f"{verdict}{missing}")


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"
