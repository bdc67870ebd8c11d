"""How good a model is on other sequences, as a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rda.report.choice import Cell
from rda.report.page import render, resource


@dataclass(frozen=True)
class Evaluation:
    """All that the page shows."""

    title: str
    headline: str
    classes: Sequence[str]
    confusion: Sequence[Sequence[Cell]]
    picture: str
    picture_text: str
    worst_title: str
    worst: Sequence[tuple[str, str, str]]
    """Sequences with their true and their predicted answer."""
    facts: Mapping[str, str]


def render_evaluation(found: Evaluation) -> str:
    """The page as text."""
    return render("evaluation.html", style=resource("choice.css"), found=found)
