"""Learning curves as a picture: a PNG of all panels, or each panel as SVG for a page."""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from rda.files import write_atomically
from rda.report.axis import LARGEST
from rda.report.curves import Curve, Panel, Points, panels, shared_task
from rda.report.wording import printable
from rda.training.record import Record

INK, MUTED = "#1c2128", "#6b7280"
EACH_BATCH: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.25, "zorder": 2}
GOAL_LINE: dict[str, Any] = {"color": MUTED, "linewidth": 1.1, "linestyle": (0, (5, 3))}
GOAL_POINT: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": INK}
CUT_SHORT: dict[str, Any] = {"marker": "X", "linestyle": "", "markeredgecolor": INK}
VALIDATION: dict[str, Any] = {"marker": "s", "linestyle": ":", "linewidth": 1, "markersize": 3}
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a run may be named $
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": MUTED,
    "grid.alpha": 0.18,
    "grid.linewidth": 0.7,
    "svg.hashsalt": "rda",
}


def save_curves(path: Path, records: Sequence[Record], title: str | None = None) -> None:
    """A PNG of one or several runs of a task: the loss, and beside it the metric."""
    write_atomically(path, curves_png(records, title))


def curves_png(records: Sequence[Record], title: str | None = None) -> bytes:
    """The same picture in memory."""
    shown = panels(records)
    heading = title or shared_task(records).title
    with _style():
        figure = _figure(5.4 * len(shown), 4.6)
        figure.suptitle(printable(heading), x=0.012, ha="left", weight="bold", size=13)
        all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for axes, panel in zip(all_axes, shown, strict=True):
            _draw(axes, panel)
        figure.legend(
            handles=_legend(shown),
            loc="outside lower left",
            ncols=2 * len(shown),
            frameon=False,
            columnspacing=2.2,
        )
        return _saved(figure, format="png", dpi=150)


def panel_svg(panel: Panel) -> str:
    """One panel for a page: no legend, and its text in the colour of the text around it."""
    with _style():
        figure = _figure(4.8, 3.4)
        _draw(figure.subplots(), panel)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        svg = _saved(figure, format="svg", transparent=True, metadata=nothing).decode()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


@contextmanager
def _style() -> Iterator[None]:
    with style.context(("default", STYLE)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def _figure(width: float, height: float) -> Figure:
    roomy = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.03)
    return Figure(figsize=(width, height), layout=roomy)


def _saved(figure: Figure, **options: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, **options)
    return content.getvalue()


def _draw(axes: Axes, panel: Panel) -> None:
    for order, curve in enumerate(reversed(panel.curves), 3):
        _draw_curve(axes, curve, order)
    if panel.goal is not None:
        axes.axhline(panel.goal.threshold, **GOAL_LINE)
    _scale(axes, panel)
    axes.set_ylabel(panel.title)
    axes.set_xlabel("step")
    axes.grid(True)
    if panel.empty:
        axes.text(0.5, 0.5, "nothing to draw yet", transform=axes.transAxes, ha="center")


def _draw_curve(axes: Axes, curve: Curve, order: int) -> None:
    smooth = {**_line(curve), "marker": "." if len(curve.smooth.steps) == 1 else ""}
    axes.plot(*_finite(curve.raw), **EACH_BATCH, color=curve.colour)
    axes.plot(*_finite(curve.smooth), **smooth, zorder=order)
    some = max(1, len(curve.validation.steps) // 16)
    validation = {**VALIDATION, "markevery": some, "color": curve.colour}
    axes.plot(*_finite(curve.validation), **validation, zorder=order)
    for point, look in ((curve.goal, GOAL_POINT), (curve.cut_short, CUT_SHORT)):
        if point is not None:
            axes.plot(*point, **look, color=curve.colour, zorder=20)


def _line(curve: Curve) -> dict[str, Any]:
    dash = (0, curve.dash) if curve.dash else "-"
    return {"color": curve.colour, "linewidth": 1.9, "linestyle": dash}


def _finite(points: Points) -> tuple[list[int], list[float]]:
    """With a gap where a value cannot be drawn."""
    values = [value if abs(value) < LARGEST else math.nan for value in points.values]
    return list(points.steps), values


def _scale(axes: Axes, panel: Panel) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    if panel.column == "accuracy":
        axes.set_ylim(-0.02, 1.04)
    elif panel.log:
        axes.set_yscale("log", nonpositive="mask")
        low, high = axes.get_ylim()
        few_decades = math.log10(high / low) < 2.5
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few_decades else (1,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(shown: Sequence[Panel]) -> list[Line2D]:
    """Every run once, then what the lines and points mean."""
    curves = [curve for panel in shown for curve in panel.curves]
    goal = next((panel.goal for panel in shown if panel.goal is not None), None)
    entries = [Line2D([], [], **_line(curve), label=curve.label) for curve in shown[0].curves]
    if shown[0].window > 1:
        entries.append(Line2D([], [], **EACH_BATCH, color=MUTED, label="each batch"))
    if any(curve.validation.steps for curve in curves):
        entries.append(Line2D([], [], **VALIDATION, color=MUTED, label="validation"))
    if goal is not None:
        entries.append(Line2D([], [], **GOAL_LINE, label=f"goal, {goal}"))
    if any(curve.goal for curve in curves):
        entries.append(Line2D([], [], **GOAL_POINT, color=MUTED, label="first batch there"))
    if any(curve.cut_short for curve in curves):
        entries.append(Line2D([], [], **CUT_SHORT, color=MUTED, label="cut short"))
    return entries
