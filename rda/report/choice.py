"""Which unit suits people's own sequences, as a page and as a table for a terminal."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from rda.report.chart import Chart, over_steps
from rda.report.comparison import build_comparison
from rda.report.figure import INK, MUTED, figure_style
from rda.report.page import render, resource
from rda.report.wording import count, duration, number, rate
from rda.sequences.forecasting import Backtest
from rda.training.record import Record
from rda.wording import printable

LEVELS = 4
"""Shades of a table of classes."""
MOST_COLUMNS = 4
"""Columns of a forecast that are drawn."""


class Row(NamedTuple):
    """One unit, or one baseline."""

    name: str
    note: str
    colour: str
    cells: tuple[str, ...]


class Cell(NamedTuple):
    """One pair of classes: how often, and how dark."""

    times: int
    level: int


class Scored(NamedTuple):
    """What the page needs of an entry."""

    name: str
    score: str
    errors: Sequence[float]
    """Of each column in its own unit, where several are forecast."""
    records: Sequence[Record]
    parameters: int
    kept_bytes: int
    speed: float


@dataclass(frozen=True)
class Choice:
    """All that the page shows."""

    title: str
    advice: str
    best: str
    use: str
    """The command by which the recommended unit reads other sequences; empty without one."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    explained: str
    charts: tuple[Chart, ...]
    classes: tuple[str, ...]
    confusion: tuple[tuple[Cell, ...], ...]
    picture: str
    picture_text: str
    told: tuple[str, ...]
    command: str
    tried: tuple[tuple[str, ...], ...]
    """Unit, learning rate, hidden units and validation loss of each run that chose them."""
    environment: Mapping[str, str]


def table(
    scored: Sequence[Scored], metric: str, targets: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Columns and rows: score, errors of each target, size, learning rate, time."""
    several = any(one.errors for one in scored)
    columns = (
        f"test {metric.replace('_', ' ')}",
        *(f"error of {printable(name)}" for name in targets if several), "learning rate",
        "time of a run", "speed", "runs", "weights", "units", "memory",
    )  # fmt: skip
    colours = _colours([one for one in scored if one.records])
    rows = []
    for one in scored:
        errors = [number(error) for error in one.errors]
        if not one.records:
            cells = (one.score, *errors)
            empty = [""] * (len(columns) - len(cells))
            rows.append(Row(one.name, "baseline", "", (*cells, *empty)))
            continue
        recipe = one.records[0].settings.recipe
        seconds = [record.status.seconds for record in one.records]
        cells = (
            one.score, *errors, f"{recipe.learning_rate:g}", duration(sum(seconds) / len(seconds)),
            f"{rate(one.speed)} steps/s" if one.speed else "",
            str(len(one.records)), count(one.parameters), str(recipe.hidden_size),
            f"{one.kept_bytes / 2**20:.3g} MB",
        )  # fmt: skip
        rows.append(Row(one.name, "", colours.get(one.name, ""), cells))
    return columns, tuple(rows)


def _colours(scored: Sequence[Scored]) -> dict[str, str]:
    if not scored:
        return {}
    compared = build_comparison([one.records[0] for one in scored])
    return {row.run.unit: row.colour for row in compared.rows}


def charts_of(records: Sequence[Record]) -> tuple[tuple[Chart, ...], Mapping[str, str]]:
    """Learning curves of some runs, and the environment that they share."""
    compared = build_comparison(records)
    return tuple(over_steps(panel) for panel in compared.panels), compared.environment


def shaded(counts: Sequence[Sequence[int]]) -> tuple[tuple[Cell, ...], ...]:
    """A table of classes with a shade for each share of its row."""
    found = []
    for row in counts:
        total = max(sum(row), 1)
        found.append(tuple(Cell(n, 0 if not n else 1 + int((LEVELS - 1) * n / total)) for n in row))
    return tuple(found)


def scatter(true: Any, predicted: Any, name: str) -> str:
    """Predicted beside true numbers, as an image in the page."""
    with figure_style():
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(true, predicted, ".", color="#0a58a8", alpha=0.5, markersize=4)
        low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
        axes.plot([low, high], [low, high], color=MUTED, linewidth=1)
        axes.set_xlabel(f"true {name}", color=INK)
        axes.set_ylabel(f"predicted {name}", color=INK)
        return _as_image(figure)


def forecast_picture(backtests: Sequence[Backtest]) -> str:
    """Forecasts with their intervals beside what came, as an image in the page."""
    shown = backtests[:MOST_COLUMNS]
    with figure_style():
        figure = Figure(figsize=(8.4, 0.6 + 2.9 * len(shown)), layout="constrained")
        rows = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
        for axes, one in zip(rows, shown, strict=True):
            before = range(1 - len(one.before), 1)
            after = range(1, len(one.true) + 1)
            axes.plot([*before, *after], [*one.before, *one.true], color=INK, linewidth=1.2)
            for begin, end in pairwise([*one.made_at, len(one.true)]):
                place, low, high, predicted = _stretch(one, begin, end)
                axes.fill_between(place, low, high, color="#0a58a8", alpha=0.2, linewidth=0)
                axes.plot(place, predicted, color="#0a58a8", linewidth=1.4)
            axes.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
            axes.set_title(one.column, loc="left", size=10)
            axes.grid(True)
        rows[-1].set_xlabel("steps of the test part")
        return _as_image(figure)


def _stretch(one: Backtest, begin: int, end: int) -> tuple[Sequence[float], ...]:
    """Where the values of one forecast are drawn, with both ends of its interval and the values; a
    single value, of which no line could be drawn, as a dash around its step."""
    place: Sequence[float] = range(begin + 1, end + 1)
    rows = [values[begin:end] for values in (one.low, one.high, one.predicted)]
    if len(place) > 1:
        return place, *rows
    return [place[0] - 0.4, place[0] + 0.4], *(2 * row for row in rows)


def _as_image(figure: Figure) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=144)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def render_choice(found: Choice) -> str:
    """The page as text."""
    return render("choice.html", style=resource("choice.css"), found=found)
