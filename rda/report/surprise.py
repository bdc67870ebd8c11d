"""A text on which each character has the colour of how surprised a model was."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rda.report.page import render, resource
from rda.wording import visible

BOUNDS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""Bits at which the next colour begins."""


@dataclass(frozen=True)
class Surprise:
    """A text, or its beginning, beside what a model thought of it."""

    title: str
    headline: str
    facts: dict[str, str]
    first: str
    """The character before the first one that has a value."""
    characters: Sequence[str]
    bits: Sequence[float]
    rest: str
    """How much of the text is not shown, in words; empty for nothing."""


def level(bits: float) -> int:
    """The colour of so many bits, 0 for the lightest."""
    return sum(bits >= bound for bound in BOUNDS)


def render_surprise(found: Surprise) -> str:
    """The page as text."""
    pairs = zip(map(level, found.bits), found.characters, strict=True)
    spans = [
        (colour, visible("".join(character for _, character in group)))
        for colour, group in groupby(pairs, key=lambda pair: pair[0])
    ]
    edges = (0.0, *BOUNDS)
    legend = [f"{low:g} to {high:g}" for low, high in zip(edges, BOUNDS, strict=False)] + [
        f"{BOUNDS[-1]:g} or more"
    ]
    return render(
        "surprise.html",
        style=resource("surprise.css"),
        found=found,
        first=visible(found.first),
        spans=spans,
        legend=legend,
    )
