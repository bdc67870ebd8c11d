"""A comparison as one HTML file that asks for nothing else: no script, no font, no request."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from rda import __version__
from rda.files import write_atomically
from rda.report.colours import COLOURS
from rda.report.comparison import compare
from rda.report.curves import panels, shared_task
from rda.report.figure import panel_svg
from rda.report.headline import headline
from rda.report.provenance import Facts, settings_used, shared_environment, starts_of
from rda.report.summary import WINDOW, Summary, labels, ranking, summarise
from rda.report.wording import MISSING, count, duration, number, rate
from rda.training.record import Record


@dataclass(frozen=True)
class RunDetails:
    """What the page says of one run beside the comparison."""

    label: str
    colour: str
    state: str
    facts: Facts
    starts: list[Facts]
    """Of each start, what not all runs share."""


def write_page(
    path: Path, title: str, records: Sequence[Record], command: str | None = None
) -> None:
    """Write the page of runs of one task; `command` is the one that makes the page again."""
    content = render_page(title, records, command)
    write_atomically(path, content.encode(errors="replace"))


def render_page(title: str, records: Sequence[Record], command: str | None = None) -> str:
    """The page as text."""
    task = shared_task(records)
    summaries = [summarise(record) for record in records]
    ranked = ranking(summaries)
    records = [records[summaries.index(run)] for run in ranked]
    shown = panels(records)
    environment = shared_environment(records)
    return _template().render(
        title=title,
        task=task.title,
        description=" ".join((type(task).__doc__ or "").split()),
        headline=headline(ranked, task.goal),
        goal=task.goal,
        comparison=compare(ranked, task.goal),
        panels=shown,
        pictures=[Markup(panel_svg(panel)) for panel in shown],
        settings=settings_used(records),
        environment=environment,
        runs=_details(records, ranked, environment),
        command=command,
        window=WINDOW,
        has_validation=any(c.validation.steps for panel in shown for c in panel.curves),
        has_cut_short=any(c.cut_short for panel in shown for c in panel.curves),
        version=__version__,
    )


def _template() -> Template:
    source = (files("rda.report") / "page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)


def _details(
    records: Sequence[Record], summaries: Sequence[Summary], environment: Facts
) -> list[RunDetails]:
    names = labels([run.unit for run in summaries], [run.name for run in summaries])
    return [
        RunDetails(
            label,
            COLOURS[run.unit],
            run.state,
            _facts(run),
            [
                {name: value for name, value in start.items() if name not in environment}
                for start in starts_of(record)
            ],
        )
        for record, run, label in zip(records, summaries, names, strict=True)
    ]


def _facts(run: Summary) -> Facts:
    metric = run.metric_name
    facts = {
        "run": run.name,
        "state": run.state,
        "reason": run.reason,
        "steps": count(run.step),
        "first batch at the goal": count(run.goal_step),
        f"mean of {WINDOW} batches at the goal": count(run.trailing_goal_step),
        "time to the goal": duration(run.seconds_to_goal),
        "steps per second": rate(run.steps_per_second),
        f"loss, mean of the last {WINDOW}": number(run.loss),
        f"{metric}, mean of the last {WINDOW}": number(run.metric),
        f"{metric}, best validation": number(run.validation),
        f"{metric}, test": number(run.test),
    }
    return {name: text for name, text in facts.items() if text not in ("", MISSING)}
