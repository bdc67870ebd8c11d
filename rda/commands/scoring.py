"""How good the model of a run is on other sequences: the score, then the page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rda.commands.choosing import MOST_CLASSES
from rda.commands.parser import UsageError
from rda.commands.predict import load_own_model
from rda.commands.training import as_usage_errors

if TYPE_CHECKING:
    from rda.choosing.entries import Entry
    from rda.report.evaluation import Evaluation
    from rda.sequences import Sequences
    from rda.training.own_model import OwnModel

PAGE = Path("evaluation.html")
WORST = 20
"""Answers that the page lists."""
SAME_DATA = "The model was trained with this very data: expect less of it on other sequences."


def score(run: str, data: str, runs: Path, device: str, page: Path) -> int:
    """Let the model answer where the answers are known, say how good it is, write the page."""
    from rich.console import Console

    from rda.choosing.entries import entry_of
    from rda.choosing.familiar import familiar
    from rda.files import write_atomically
    from rda.report.evaluation import render_evaluation
    from rda.sequences.stored import digest
    from rda.training.outcomes import outcomes_on

    model = load_own_model(run, runs, device)
    told = model.understanding
    with as_usage_errors():
        read = model.read(data, with_answers=True)
        sequences = told.aligned(read)
        outcomes = outcomes_on(model, sequences)
    if not len(outcomes.true):
        raise UsageError(f"{data} has no answer to compare with")
    entry = entry_of(run, [outcomes], bool(told.classes), scales=told.scales)
    found = _evaluation(model, sequences, entry, data)
    is_same = digest(read) == model.facts.get("sha256")
    known = [SAME_DATA] if is_same else []
    known += familiar(model, sequences, is_same)
    found = replace(found, headline=" ".join([found.headline, *known]))
    console = Console()
    console.print(found.headline, markup=False, highlight=False, soft_wrap=True)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(page, render_evaluation(found).encode(errors="replace"))
    except OSError as error:
        raise UsageError(f"{page} cannot be written: {error.strerror}") from error
    console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _evaluation(
    model: "OwnModel", sequences: "Sequences", entry: "Entry", data: str
) -> "Evaluation":
    from rda.choosing.advice import score_name
    from rda.choosing.verdict import confusion
    from rda.report.choice import scatter, shaded
    from rda.report.evaluation import Evaluation
    from rda.wording import counted, printable

    told, (outcomes,) = model.understanding, entry.outcomes
    name = printable(", ".join(told.target))
    what = score_name(told.metric)
    answers = counted(len(outcomes.true), "answer")
    headline = (
        f"{what} of {name}: {entry.score} on {answers} of {counted(len(sequences), 'sequence')}"
    )
    if entry.errors:
        named = zip(told.target, entry.errors, strict=True)
        each = ", ".join(f"{printable(column)} {error:.4g}" for column, error in named)
        headline += f"; mean absolute error of each column: {each}"
    unknown = int((outcomes.true < 0).sum()) if told.classes else 0
    if unknown:
        headline += f"; {counted(unknown, 'answer')} of classes that training has not seen"
    record = model.record
    assert record is not None
    facts = {
        "data": data,
        "run": record.name,
        "unit": record.settings.unit,
        "steps": f"{record.status.best_step or record.status.step:,}",
        "in brackets": "where the score would lie in 95 of 100 draws of other sequences",
    }
    few = 0 < len(told.classes) <= MOST_CLASSES
    first = outcomes.column == 0  # others may have another unit
    one_each = not told.every_step  # beside a forecast there may be labels that nobody asked for
    worst_title, worst = _worst(told.classes, sequences, outcomes) if one_each else ("", [])
    known = outcomes._replace(
        true=outcomes.true[outcomes.true >= 0], predicted=outcomes.predicted[outcomes.true >= 0]
    )
    return Evaluation(
        title=f"{record.settings.unit} on {Path(data).name}",
        headline=f"{headline}.",
        classes=told.classes,
        confusion=shaded(confusion([known], told.classes)) if few else (),
        picture=""
        if told.classes
        else scatter(outcomes.true[first], outcomes.predicted[first], printable(told.target[0])),
        picture_text="Each point is an answer; on the line it would be exact.",
        worst_title=worst_title,
        worst=worst,
        facts=facts,
    )


def _worst(
    classes: tuple[str, ...], sequences: "Sequences", outcomes: Any
) -> tuple[str, list[tuple[str, str, str]]]:
    """The wrong answers, or the largest errors, of a model with one answer for each sequence."""
    import numpy as np

    target = sequences.target
    if target is None or target.every_step:
        return "", []
    there = np.flatnonzero(np.isfinite(target.values))
    if classes:
        wrong = np.flatnonzero(outcomes.true != outcomes.predicted)[:WORST]
        title = "Wrong answers" if len(wrong) < WORST else f"The first {WORST} wrong answers"
        return title, [
            (
                sequences.ids[there[i]],
                target.classes[int(target.values[there[i]])],
                classes[int(outcomes.predicted[i])],
            )
            for i in wrong
        ]
    largest = np.argsort(-np.abs(outcomes.true - outcomes.predicted))[:WORST]
    return "The largest errors", [
        (sequences.ids[there[i]], f"{outcomes.true[i]:.6g}", f"{outcomes.predicted[i]:.6g}")
        for i in largest
    ]
