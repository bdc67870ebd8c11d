"""The pictures of benchmarks/README.md."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from rda.report.colours import COLOURS
from rda.report.figure import INK, figure_style, save_png

SHOWN = {"RDA-exp-tanh": COLOURS["RDA-exp-tanh"], "nn.LSTM": COLOURS["LSTM"]}
DASHES: dict[str, Any] = {"fp32": "-", "tf32": (0, (5, 2)), "bf16": (0, (1, 1.2))}
UNITS, BATCH = 250, 100
"""The paper's size: the left picture is drawn at this batch size, the right one at this number
of units."""


def draw_grid(path: Path, grid: dict[str, Any]) -> None:
    """The time of a training step over units and over batch size, on logarithmic axes."""
    cells = [cell for cell in grid["cells"] if "error" not in cell]
    with figure_style():
        figure = Figure(figsize=(10.4, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_line(left, "units", [cell for cell in cells if cell["batch"] == BATCH])
        _draw_line(right, "batch", [cell for cell in cells if cell["units"] == UNITS])
        left.set_ylabel("milliseconds per training step")
        left.set_xlabel(f"units, at batch size {BATCH}")
        right.set_xlabel(f"batch size, at {UNITS} units")
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
        path.write_bytes(save_png(figure))


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
    """The sizes that are written on the axis: the largest, and those with room beside the next."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or size <= 0.8 * kept[-1]:
            kept.append(size)
    return kept


def _plain_numbers(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
