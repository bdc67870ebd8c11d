"""The pictures of benchmarks/README.md."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from end_to_end import by_task
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from rda.report.colours import COLOURS
from rda.report.curves import Panel, panels
from rda.report.figure import GOAL_LINE, GOAL_POINT, INK, MUTED, STYLE
from rda.training.record import Record

SHOWN = {"RDA-exp-tanh": COLOURS["RDA-exp-tanh"], "nn.LSTM": COLOURS["LSTM"]}
DASHES: dict[str, Any] = {"fp32": "-", "tf32": (0, (5, 2)), "bf16": (0, (1, 1.2))}
UNITS, BATCH = 250, 100
"""The paper's size, through which both lines over the grid go."""
WIDEST = 3
"""Panels in a row."""

Look = dict[str, Any]


def draw_grid(path: Path, grid: dict[str, Any]) -> None:
    """A training step's time over units and over batch size, both axes logarithmic."""
    cells = [cell for cell in grid["cells"] if "error" not in cell]
    with _figure(10.4, 4.4) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_line(left, "units", [cell for cell in cells if cell["batch"] == BATCH])
        _draw_line(right, "batch", [cell for cell in cells if cell["units"] == UNITS])
        left.set_ylabel("ms a training step")
        left.set_xlabel(f"units, at a batch of {BATCH}")
        right.set_xlabel(f"batch, at {UNITS} units")
        precisions = dict.fromkeys(cell["precision"] for cell in cells)
        figure.legend(
            handles=[
                *(Line2D([], [], color=colour, lw=2.4, label=who) for who, colour in SHOWN.items()),
                *(Line2D([], [], color=INK, ls=DASHES[p], lw=1.6, label=p) for p in precisions),
            ],
            loc="outside upper left",
            ncols=len(SHOWN) + len(precisions),
            frameon=False,
        )
        figure.savefig(path, dpi=150)


def _draw_line(axes: Axes, over: str, cells: list[dict[str, Any]]) -> None:
    for precision in dict.fromkeys(cell["precision"] for cell in cells):
        here = sorted((c for c in cells if c["precision"] == precision), key=lambda c: c[over])
        for who, colour in SHOWN.items():
            axes.plot(
                [cell[over] for cell in here],
                [cell["training"][who]["median"] for cell in here],
                color=colour,
                linestyle=DASHES[precision],
                linewidth=1.6,
                marker="o",
                markersize=3,
            )
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(FixedLocator(_apart({cell[over] for cell in cells})))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    _plain_numbers(axes.xaxis, axes.yaxis)
    axes.grid(True)


def _apart(sizes: set[int]) -> list[int]:
    """The largest, and all that leave room for their number beside the next."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or size <= 0.8 * kept[-1]:
            kept.append(size)
    return kept


def _plain_numbers(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def draw_curves(path: Path, records: Sequence[Record]) -> None:
    """The metric of each task over steps, a line a unit."""
    groups = list(by_task(records).values())
    rows, columns = math.ceil(len(groups) / WIDEST), min(len(groups), WIDEST)
    looks: dict[str, Look] = {}
    marks: dict[str, Look] = {}
    with _figure(max(4.6 * columns, 6.0), 3.5 * rows + 0.5) as figure:
        all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, group in zip(all_axes, groups, strict=False):
            _draw_panel(axes, panels(group)[-1], looks, marks)
            axes.set_title(group[0].settings.task.title, loc="left", weight="bold", size=10)
        for axes in all_axes[len(groups) :]:
            axes.set_axis_off()
        figure.legend(
            handles=[Line2D([], [], **look, label=text) for text, look in (looks | marks).items()],
            loc="outside lower left",
            ncols=2 + 2 * columns,
            frameon=False,
        )
        figure.savefig(path, dpi=150)


def _draw_panel(axes: Axes, panel: Panel, looks: dict[str, Look], marks: dict[str, Look]) -> None:
    """One task; `looks` and `marks` are told what its lines and points look like, for a legend."""
    for order, curve in enumerate(panel.curves):
        dash = (0, curve.dash) if curve.dash else "-"
        look: Look = {"color": curve.colour, "linewidth": 1.7, "linestyle": dash}
        axes.plot(curve.smooth.steps, curve.smooth.values, **look, zorder=9 - order)
        looks[curve.label] = look
        if curve.goal is not None:
            axes.plot(*curve.goal, **GOAL_POINT, color=curve.colour, zorder=20)
            marks["first batch at the goal"] = {**GOAL_POINT, "color": MUTED}
    if panel.goal is not None:
        axes.axhline(panel.goal.threshold, **GOAL_LINE)
        marks["goal"] = GOAL_LINE
    if panel.log:
        axes.set_yscale("log", nonpositive="mask")
        _plain_numbers(axes.yaxis)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.set(xlabel="step", ylabel=panel.title)
    axes.grid(True)


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """In the style of the pictures that `rda` makes."""
    with style.context(("default", STYLE)):
        yield Figure(figsize=(width, height), layout="constrained")
