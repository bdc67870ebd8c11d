"""A comparison as Markdown."""

import re

from rda.report.comparison import Comparison

MARKUP = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)|<(?! )")
"""What Markdown may read as markup: "_" within a word and "<" before a space are text."""


def render_markdown(comparison: Comparison) -> str:
    """The goal, the table, what differs from the usual settings, and the headline."""
    lines = [] if comparison.goal is None else [f"Goal: {escaped(str(comparison.goal))}.", ""]
    lines.append(table_row("unit", *comparison.columns))
    lines.append("|---|" + "---:|" * (len(comparison.columns) - 1) + "---|")
    lines += [table_row(row.label, *row.cells) for row in comparison.rows]
    notes = [f"{row.label}: {row.note}" for row in comparison.rows if row.note]
    for note in filter(None, (comparison.difference_note, *notes)):
        lines += ["", escaped(f"{note[0].upper()}{note[1:]}.")]
    return "\n".join([*lines, "", escaped(comparison.headline)])


def table_row(*cells: str) -> str:
    """One row of a table."""
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """Text from a record, in which no character is markup."""
    return MARKUP.sub(r"\\\g<0>", text)
