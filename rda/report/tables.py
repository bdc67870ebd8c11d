"""Tables for the terminal. Text from a record is shown as it is, never read as markup."""

from collections.abc import Sequence
from textwrap import wrap

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rda.report.colours import unit_colours
from rda.report.comparison import Comparison
from rda.report.summary import Summary
from rda.report.wording import count, number, rate
from rda.training.status import FAILED, FINISHED, INTERRUPTED, KILLED, RUNNING

DOT = "●"
WIDEST_LABEL, WIDEST_HEADER = 30, 10
NUMBERS_WIDTH = 52
STATE_STYLES = {
    FINISHED: "green",
    RUNNING: "cyan",
    INTERRUPTED: "yellow",
    FAILED: "red",
    KILLED: "red",
}


def runs_table(summaries: Sequence[Summary], width: int = 80) -> Table | Group:
    """Every run with its state and its numbers; below its name, its unit, task and settings.

    A name is never broken into two lines, so that it can be copied and searched for. If `width`
    is too small for a table with whole names, the numbers follow in a line below each name.
    """
    colours = unit_colours(run.unit for run in summaries)
    widest = max((line.cell_len for run in summaries for line in _run(run).split()), default=0)
    if widest + NUMBERS_WIDTH > width:
        return Group(*(_stacked(run, colours[run.unit]) for run in summaries))
    table = _table()
    table.add_column()
    table.add_column("run", no_wrap=True)
    table.add_column("state")
    for name in ("step", "goal at", "steps/s", "loss", "metric"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in summaries:
        metric = Text(number(run.metric)).append(f"\n{run.metric_name}", "dim")
        table.add_row(
            Text(DOT, colours[run.unit]),
            _run(run),
            _state(run.state),
            count(run.step),
            count(run.goal_step),
            rate(run.steps_per_second),
            number(run.loss),
            metric,
        )
    return table


def _stacked(run: Summary, colour: str) -> Text:
    facts = [f"step {count(run.step)}"]
    if run.goal_step is not None:
        facts.append(f"goal at {count(run.goal_step)}")
    facts.append(f"{rate(run.steps_per_second)} steps/s")
    facts.append(f"loss {number(run.loss)}")
    if run.metric_name != "loss":
        facts.append(f"{run.metric_name} {number(run.metric)}")
    shown = Text.assemble((f"{DOT} ", colour), _run(run), "\n  ", no_wrap=False)
    return shown.append_text(_state(run.state)).append(f", {', '.join(facts)}")


def comparison_table(comparison: Comparison) -> Table:
    """Runs of one task side by side, the best first."""
    title, goal = comparison.task.title, comparison.goal
    table = _table()
    table.title = Text(title if goal is None else f"{title}, goal: {goal}", "bold")
    table.caption = _notes(comparison)
    table.add_column()
    table.add_column("unit", overflow="fold", max_width=WIDEST_LABEL)
    for name in comparison.columns:
        header = "\n".join(wrap(name, WIDEST_HEADER))
        table.add_column(header, justify="left" if name == "state" else "right")
    for row in comparison.rows:
        *cells, state = row.cells
        table.add_row(Text(DOT, row.colour), Text(row.label), *map(Text, cells), _state(state))
    return table


def _notes(comparison: Comparison) -> Text:
    notes = [f"{row.label}: {row.note}" for row in comparison.rows if row.note]
    return Text("\n".join(filter(None, [comparison.difference_note, *notes])))


def _table() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        title_justify="left",
        title_style="",
        caption_justify="left",
        caption_style="dim",
        header_style="bold",
    )


def _run(run: Summary) -> Text:
    what = ", ".join([f"{run.unit} on {run.task}", *run.brief_differences])
    cell = Text.assemble((run.name, "bold"), (f"\n  {what}", "dim"))
    if not run.ended and run.reason:
        cell.append(f"\n  {run.reason}", STATE_STYLES.get(run.state, ""))
    return cell


def _state(state: str) -> Text:
    return Text(state, STATE_STYLES.get(state, ""))
