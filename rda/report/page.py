"""A comparison as one HTML file that asks for nothing else.

The page runs one script and one style sheet of ours, both inside the file. Its Content-Security-
Policy names them by their hashes, so a browser runs nothing else, whatever a record holds.
"""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rda import __version__
from rda.labels import RDA_LABELS
from rda.report.chart import SCALE, over_steps, over_time
from rda.report.comparison import Comparison
from rda.report.geometry import HEIGHT
from rda.report.summary import WINDOW
from rda.wording import listed

FAMILIES = {"RDA", "RWA", "LSTM", "GRU"}
"""Units that the page explains."""


def render_page(comparison: Comparison, command: str = "") -> str:
    """The page as text; `command` is the one that made the runs."""
    curves = [curve for panel in comparison.panels for curve in panel.curves]
    timed = [over_time(panel) for panel in comparison.panels]
    return render(
        "page.html",
        comparison=comparison,
        task=comparison.task,
        families={row.run.unit.partition("-")[0] for row in comparison.rows} & FAMILIES,
        example=_example(comparison),
        by_step=[over_steps(panel) for panel in comparison.panels],
        by_time=[chart for chart in timed if chart is not None],
        has_validation=any(curve.validation.steps for curve in curves),
        has_cut_short=any(curve.cut_short for curve in curves),
        untimed=_untimed(comparison),
        command=command,
        window=WINDOW,
    )


def render(template: str, style: str = "", **values: Any) -> str:
    """A page from one of our templates; `style` is added to the style of all pages."""
    environment = Environment(
        loader=FunctionLoader(resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = resource("page.css") + style, resource("page.js")
    return environment.get_template(template).render(
        **values,
        version=__version__,
        height=HEIGHT,
        scale=SCALE,
        percent=lambda share: f"{100 * share:.2f}%",
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
    )


def resource(name: str) -> str:
    """The text of a file of this folder."""
    return (files("rda.report") / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """The source expression of a Content-Security-Policy for a script or style in the page."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _example(comparison: Comparison) -> str:
    """What the label of the best RDA means."""
    for row in comparison.rows:
        if row.run.unit in RDA_LABELS:
            attention, output = RDA_LABELS[row.run.unit]
            return f" {row.run.unit} uses {attention} for its attention and {output} at its output."
    return ""


def _untimed(comparison: Comparison) -> str:
    """Runs with a curve over steps and none over time."""
    curves = comparison.panels[0].curves
    return listed(
        [curve.label for curve in curves if curve.smooth.steps and len(curve.clock.timings) < 2]
    )
