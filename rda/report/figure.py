"""Learning curves as a PNG, drawn by matplotlib in the colours and dashes of the page."""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from rda.report.axis import LARGEST, Axis
from rda.report.comparison import Comparison
from rda.report.curves import Curve, Panel
from rda.report.overlap import nested
from rda.report.points import Points

INK, MUTED = "#1c2128", "#6b7280"
WIDEST = 3
"""Panels in a row."""
ROOM = 0.04
"""Room at the ends of an axis, as a share of its length."""
EACH_BATCH: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.3, "zorder": 2}
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
}

Look = dict[str, Any]


def render_png(comparison: Comparison) -> bytes:
    """The loss and, beside it, the metric of the runs of a comparison."""
    return draw_panels([(panel.title, panel) for panel in comparison.panels], comparison.task.title)


def draw_panels(titled: Sequence[tuple[str, Panel]], heading: str = "") -> bytes:
    """Several panels, each under its title, as one PNG with one legend."""
    rows, columns = math.ceil(len(titled) / WIDEST), min(len(titled), WIDEST)
    with figure_style():
        figure = Figure(
            figsize=(max(5.4 * columns, 6.4), 3.5 * rows + 1.1),
            layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.03),
        )
        if heading:
            figure.suptitle(heading, x=0.012, ha="left", weight="bold", size=13)
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, (title, panel) in zip(places, titled, strict=False):
            _draw(axes, panel)
            axes.set_title(title, loc="left", size=10)
        for axes in places[len(titled) :]:
            axes.set_axis_off()
        figure.legend(
            handles=[Line2D([], [], label=label, **look) for label, look in _legend(titled)],
            loc="outside lower left",
            ncols=max(3, 2 * columns),
            frameon=False,
            columnspacing=2.2,
        )
        return save_png(figure)


@contextmanager
def figure_style() -> Iterator[None]:
    """The look of our pictures, whatever the user's own settings of matplotlib are."""
    with style.context(("default", STYLE)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def save_png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _draw(axes: Axes, panel: Panel) -> None:
    for order, curve in enumerate(reversed(panel.curves), 3):
        _draw_curve(axes, curve, order)
    x, y = panel.horizontal.widened(ROOM), panel.vertical.widened(ROOM)
    _draw_goal_points(axes, panel, x, y)
    if panel.goal is not None:
        axes.axhline(panel.goal.threshold, **GOAL_LINE)
    if y.log:
        axes.set_yscale("log", nonpositive="mask")
    _scale(axes, x, y)
    axes.set_xlabel("step")
    axes.grid(True)
    if panel.empty:
        axes.text(0.5, 0.5, "nothing to draw yet", transform=axes.transAxes, ha="center")


def _scale(axes: Axes, x: Axis, y: Axis) -> None:
    """The ranges and numbers that the page has too."""
    across, upward = x.ticks(6), y.ticks(7)
    axes.set_xticks([tick.value for tick in across], [tick.text for tick in across])
    axes.set_yticks([tick.value for tick in upward], [tick.text for tick in upward])
    axes.minorticks_off()
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)


def _draw_curve(axes: Axes, curve: Curve, order: int) -> None:
    smooth = {**_line(curve), "marker": "." if len(curve.smooth.steps) == 1 else ""}
    axes.plot(*_drawable(curve.raw), **EACH_BATCH, color=curve.colour)
    axes.plot(*_drawable(curve.smooth), **smooth, zorder=order)
    some = max(1, len(curve.validation.steps) // 16)
    validation = {**VALIDATION, "markevery": some, "color": curve.colour}
    axes.plot(*_drawable(curve.validation), **validation, zorder=order)
    if curve.cut_short is not None:
        axes.plot(*curve.cut_short, **CUT_SHORT, color=curve.colour, zorder=30)


def _draw_goal_points(axes: Axes, panel: Panel, x: Axis, y: Axis) -> None:
    points = [(curve.goal, curve.colour) for curve in panel.curves if curve.goal is not None]
    places = [(x.place(step) or 0.0, y.place(value) or 0.0) for (step, value), _ in points]
    for (point, colour), rings in zip(points, nested(places), strict=True):
        size = 6 + 4 * rings
        axes.plot(*point, **GOAL_POINT, markersize=size, color=colour, zorder=30 - rings)


def _line(curve: Curve) -> Look:
    dash = (0, curve.dash) if curve.dash else "-"
    return {"color": curve.colour, "linewidth": 1.9, "linestyle": dash}


def _drawable(points: Points) -> tuple[list[int], list[float]]:
    """Points with a gap where a value cannot be drawn."""
    values = [value if abs(value) < LARGEST else math.nan for value in points.values]
    return list(points.steps), values


def _legend(titled: Sequence[tuple[str, Panel]]) -> list[tuple[str, Look]]:
    """Every run once, then what the other lines and points mean."""
    panels = [panel for _, panel in titled]
    curves = [curve for panel in panels for curve in panel.curves]
    goals = dict.fromkeys(str(panel.goal) for panel in panels if panel.goal is not None)
    entries: dict[str, Look] = {}
    if any(panel.window > 1 for panel in panels):
        entries["single batches"] = {**EACH_BATCH, "color": MUTED}
    if any(curve.validation.steps for curve in curves):
        entries["validation"] = {**VALIDATION, "color": MUTED}
    if goals:
        entries[f"goal, {', '.join(goals)}"] = GOAL_LINE
    if any(curve.goal for curve in curves):
        entries["first batch at the goal"] = {**GOAL_POINT, "color": MUTED}
    if any(curve.cut_short for curve in curves):
        entries["cut short"] = {**CUT_SHORT, "color": MUTED}
    runs = {curve.label: _line(curve) for curve in reversed(curves)}
    return [*reversed(runs.items()), *entries.items()]
