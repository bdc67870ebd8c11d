"""Attention and discount over time as a picture, under the symbols that were read."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rda.analysis.inspection import STEPS_SHOWN, Inspection
from rda.report.figure import INK, MUTED, figure_style, save_png

FEW = 70
"""Up to this many steps the symbols are large enough to read."""

BESIDE_THE_TITLE: dict[str, Any] = {
    "loc": "lower right", "bbox_to_anchor": (1, 0.98), "frameon": False, "ncols": 2,
    "borderaxespad": 0,
}  # fmt: skip


def render_inspection(inspection: Inspection) -> bytes:
    """Two heat maps, units over steps, and below them their means and the attention logits. Above
    them, where numbers were read, what was read."""
    steps = min(inspection.steps, STEPS_SHOWN)
    shown = steps if steps > FEW and not inspection.symbols else min(steps, FEW)
    with figure_style():
        figure = Figure(figsize=(12, 11 if inspection.inputs else 9), layout="constrained")
        figure.suptitle(_title(inspection, shown), x=0.012, ha="left", weight="bold", size=13)
        heights = [3, 3, 1.6, 1.6]
        if inspection.inputs:
            heights.insert(0, 2)
        *read, share, discount, means, logits = figure.subplots(
            len(heights), 1, sharex=True, height_ratios=heights
        )
        for axes in read:
            _inputs(axes, inspection, shown)
        maps = {
            "share of the newest step": (share, inspection.new_share_of_units),
            "discount of the past": (discount, inspection.discount_of_units),
        }
        for name, (axes, rows) in maps.items():
            _heat(figure, axes, rows, shown, name, bool(inspection.symbols))
        for axes in (share, discount):
            _symbols(axes, inspection, shown)
        _means(means, inspection, shown)
        _logits(logits, inspection, shown)
        return save_png(figure)


def _title(inspection: Inspection, shown: int) -> str:
    read = f"sequence {inspection.sequence}" if inspection.sequence else inspection.task
    steps = f"{inspection.steps:,} steps"
    if shown < inspection.steps or not inspection.sequence:
        steps = f"the first {shown} of {steps}"
    said = f"; it says {inspection.answer}" if inspection.answer else ""
    return f"{inspection.unit} on {read}: {steps}{said}"


def _inputs(axes: Axes, inspection: Inspection, steps: int) -> None:
    """What was read, each column from its lowest to its highest value."""
    for name, values in inspection.inputs.items():
        some = [value for value in values[:steps] if math.isfinite(value)]
        low, span = (min(some), max(some) - min(some) or 1.0) if some else (0.0, 1.0)
        axes.plot([(value - low) / span for value in values[:steps]], label=name, linewidth=1.2)
    axes.set_title("what was read, each from low to high", loc="left", size=10)
    axes.legend(**{**BESIDE_THE_TITLE, "ncols": 6})
    axes.set_yticks([])
    axes.grid(True)


def _heat(
    figure: Figure, axes: Axes, rows: Sequence[Sequence[float]], steps: int, name: str,
    has_symbols: bool,
) -> None:  # fmt: skip
    image = axes.imshow(
        [row[:steps] for row in rows], aspect="auto", interpolation="nearest", vmin=0, vmax=1,
        cmap="viridis",
    )  # fmt: skip
    axes.set_title(name, loc="left", size=10, pad=18 if has_symbols else 6)
    axes.set_ylabel(f"{len(rows)} units")
    axes.set_yticks([])
    figure.colorbar(image, ax=axes, pad=0.01, fraction=0.03)


def _symbols(axes: Axes, inspection: Inspection, steps: int) -> None:
    """What was read, above a heat map."""
    for step, symbol in enumerate(inspection.symbols[:steps]):
        axes.text(
            step, 1.01, symbol, ha="center", va="bottom", size=8, color=INK,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip


def _means(axes: Axes, inspection: Inspection, steps: int) -> None:
    axes.plot(inspection.new_share[:steps], color="#d55e00", label="share of the newest step")
    axes.plot(inspection.discount[:steps], color="#0072b2", label="discount of the past")
    if inspection.inputs and inspection.final_share:
        axes.bar(
            range(steps), inspection.final_share[:steps], color="#009e73", alpha=0.6,
            label="share in the last average",
        )  # fmt: skip
    axes.set_ylim(0, 1.02)
    axes.set_title("means over all units", loc="left", size=10)
    axes.legend(**{**BESIDE_THE_TITLE, "ncols": 3})
    axes.grid(True)


def _logits(axes: Axes, inspection: Inspection, steps: int) -> None:
    axes.plot(inspection.highest_attention[:steps], color="#d55e00", label="attention, log a")
    axes.plot(inspection.highest_weight[:steps], color=MUTED, linestyle="--", label="weight, log d")
    axes.set_title("highest of all units", loc="left", size=10)
    axes.set_xlabel("step")
    axes.legend(**BESIDE_THE_TITLE)
    axes.grid(True)
