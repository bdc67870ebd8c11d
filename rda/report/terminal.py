"""A comparison in the terminal: its curves in braille dots, its table, its headline."""

from collections.abc import Iterator, Sequence
from itertools import cycle, groupby
from operator import itemgetter

from rich.console import Group
from rich.text import Text

from rda.report.axis import Axis
from rda.report.comparison import Comparison
from rda.report.curves import Curve, Panel
from rda.report.tables import comparison_table

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column; two by four dots in all."""
MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
"""Written where a curve ends, so that it can be told from others without its colour."""
WIDEST = 100
"""Wider drawings are hard to read across."""
SMALLEST_WIDTH, SMALLEST_ROWS = 16, 3
COLUMNS_A_NUMBER, ROWS_A_NUMBER = 12, 3
GOAL_LINE = "╌"

Dot = tuple[int, int]
Cell = tuple[int, int]


def render_terminal(comparison: Comparison, width: int = 80) -> Group:
    """The curves of the metric, the table and the headline, for a rich console."""
    return Group(
        draw(comparison.panels[-1], min(width, WIDEST)),
        comparison_table(comparison),
        Text(comparison.headline),
    )


def draw(panel: Panel, width: int = 80, height: int = 20) -> Text:
    """A panel in `height` lines of `width` columns; larger if it could not be read so small."""
    legend = _legend(panel.curves, width)
    rows = max(SMALLEST_ROWS, height - 3 - len(legend))
    x, y = panel.horizontal, panel.vertical
    numbers = {_row(tick.place, rows): tick.text for tick in y.ticks(rows // ROWS_A_NUMBER + 1)}
    gutter = max(len(text) for text in ["", *numbers.values()])
    columns = max(SMALLEST_WIDTH, width - gutter - 2)
    canvas = _Canvas(columns, rows, panel.curves)
    canvas.draw(x, y)
    goal = None if panel.goal is None else y.place(panel.goal.threshold)
    lines = [_title(panel)]
    for row in range(rows):
        axis = f"{numbers.get(row, ''):>{gutter}} {'┤' if row in numbers else '│'}"
        on_goal = goal is not None and row == _row(goal, rows)
        lines.append(Text.assemble((axis, "dim"), canvas.line(row, on_goal)))
    lines += _steps(x, columns, gutter)
    return Text("\n").join([*lines, *legend])


def _row(place: float, rows: int) -> int:
    return round((rows - 1) * (1 - place))


def _title(panel: Panel) -> Text:
    name, _, detail = panel.title.partition(",")
    title = Text.assemble((name, "bold"), (f",{detail}" if detail else "", "dim"))
    if panel.empty:
        title.append(", nothing to draw yet", "dim")
    if panel.goal is not None:
        title.append(f"  {GOAL_LINE * 3} goal {panel.goal}", "dim")
    return title


def _steps(x: Axis, columns: int, gutter: int) -> list[Text]:
    """The horizontal axis and, under it, the numbers of steps."""
    line = ["─"] * columns
    names = ""
    for tick in x.ticks(columns // COLUMNS_A_NUMBER):
        column = round((columns - 1) * tick.place)
        line[column] = "┬"
        start = min(max(column - len(tick.text) // 2, 0), columns - len(tick.text))
        names = names.ljust(start) + tick.text
    margin = " " * (gutter + 1)
    return [Text(f"{margin}└{''.join(line)}", "dim"), Text(f"{margin} {names}", "dim")]


def _legend(curves: Sequence[Curve], width: int) -> list[Text]:
    """Mark and label of each curve, in as many lines as they need."""
    lines = [Text()]
    for mark, curve in zip(cycle(MARKS), curves, strict=False):
        entry = Text.assemble((mark, f"bold {curve.colour}"), (f" {curve.label}", curve.colour))
        entry.truncate(width, overflow="ellipsis")
        if lines[-1] and lines[-1].cell_len + 3 + entry.cell_len > width:
            lines.append(Text())
        lines[-1].append_text(Text("   ") if lines[-1] else Text()).append_text(entry)
    return lines


class _Canvas:
    """Dots in cells. Where curves cross, the first of them is visible."""

    def __init__(self, columns: int, rows: int, curves: Sequence[Curve]) -> None:
        self.columns, self.rows, self.curves = columns, rows, curves
        self.dots: dict[Cell, int] = {}
        self.owners: dict[Cell, Curve] = {}
        self.marks: dict[Cell, str] = {}

    def draw(self, x: Axis, y: Axis) -> None:
        """Draw every curve, and put its mark on the last of its cells that has none yet."""
        for mark, curve in reversed(list(zip(cycle(MARKS), self.curves, strict=False))):
            trail: list[Cell] = []
            for column, row in self._path(curve, x, y):
                cell = row // 4, column // 2
                self.dots[cell] = self.dots.get(cell, 0) | DOTS[row % 4][column % 2]
                self.owners[cell] = curve
                trail.append(cell)
            free = [cell for cell in trail if cell not in self.marks]
            for cell in free[-1:]:
                self.marks[cell] = mark
                self.owners[cell] = curve

    def _path(self, curve: Curve, x: Axis, y: Axis) -> Iterator[Dot]:
        before: Dot | None = None
        for step, value in zip(*curve.smooth, strict=True):
            here = self._dot(x.place(step), y.place(value))
            if here is not None:
                yield from _straight(before or here, here)
            before = here

    def _dot(self, x: float | None, y: float | None) -> Dot | None:
        if x is None or y is None:
            return None
        return round((2 * self.columns - 1) * x), round((4 * self.rows - 1) * (1 - y))

    def line(self, row: int, on_goal: bool) -> Text:
        """One row of characters; neighbours of the same style are one piece."""
        look = (self._look((row, column), on_goal) for column in range(self.columns))
        pieces = groupby(look, key=itemgetter(1))
        return Text.assemble(*(("".join(c for c, _ in piece), style) for style, piece in pieces))

    def _look(self, cell: Cell, on_goal: bool) -> tuple[str, str]:
        if cell in self.marks:
            return self.marks[cell], f"bold {self.owners[cell].colour}"
        if cell in self.dots:
            return chr(BRAILLE + self.dots[cell]), self.owners[cell].colour
        return GOAL_LINE if on_goal else " ", "dim"


def _straight(start: Dot, end: Dot) -> Iterator[Dot]:
    """The dots on a straight line, both ends included."""
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for part in range(length + 1):
        share = part / length
        yield (
            round(start[0] + share * (end[0] - start[0])),
            round(start[1] + share * (end[1] - start[1])),
        )
