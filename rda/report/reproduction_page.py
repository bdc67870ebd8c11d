"""The reproduction as one HTML file that asks for nothing else."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass

from rda.experiments.evidence import ACCURACY_MARGIN, BITS_MARGIN, FACTOR
from rda.labels import UNIT_LABELS
from rda.report.chart import Chart, over_characters, over_steps, over_time
from rda.report.colours import unit_colours
from rda.report.inspection import render_inspection
from rda.report.page import render, resource
from rda.report.reproduction import DEMAND, Reproduction, TableView, factor
from rda.report.wording import duration
from rda.settings import Recipe
from rda.tasks import all_tasks


@dataclass(frozen=True)
class Drawing:
    """A chart of a task under its heading; None where nothing was run."""

    task: str
    heading: str
    chart: Chart | None


def render_reproduction(paper: Reproduction) -> str:
    """The page as text."""
    picture = None if paper.inspected is None else render_inspection(paper.inspected)
    units = [unit for unit in UNIT_LABELS if _is_shown(paper, unit)]
    tasks = [view.table.task for view in paper.tables]
    in_order = sorted(paper.tables, key=lambda view: (not view.table.panel, view.table.panel))
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
        drawings=[drawing for view in in_order for drawing in _drawings(view)],
        lemma_chart=over_steps(paper.lemma_panel),
        demand=DEMAND,
        hidden=Recipe().hidden_size,
        picture="" if picture is None else base64.b64encode(picture).decode(),
        hours=duration(paper.seconds or None),
        factor_allowed=FACTOR,
        accuracy_margin=ACCURACY_MARGIN,
        bits_margin=BITS_MARGIN,
        as_factor=factor,
    )


def _drawings(view: TableView) -> Iterator[Drawing]:
    """As in Appendix B; of a text, which it does not show, over characters and over time."""
    task, title = view.table.task, all_tasks()[view.table.task].title
    if view.panel is None:
        yield Drawing(task, f"{view.table.panel}. {title}" if view.table.panel else title, None)
    elif view.characters_per_step:
        read = over_characters(view.panel, view.characters_per_step)
        yield Drawing(task, f"{title}, over characters", read)
        timed = over_time(view.panel)
        if timed is not None:
            yield Drawing(task, f"{title}, over time", timed)
    else:
        yield Drawing(task, f"{view.table.panel}. {title}", over_steps(view.panel))


def _is_shown(paper: Reproduction, unit: str) -> bool:
    cells = [*paper.cells, *(cell for cells in paper.activations.values() for cell in cells)]
    return any(cell.unit == unit for cell in cells)


def _of_unit(unit: str) -> str:
    """Selects the rows and curves of a unit."""
    return f':is([data-unit="{unit}"], [data-label="{unit}"])'


def _hiding(box: str, what: str) -> str:
    """The rule that hides what belongs to a box that is not checked; it needs no script."""
    return f"body:has(#{box}:not(:checked)) {what} {{ display: none; }}\n"
