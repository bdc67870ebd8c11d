"""The reproduction as Markdown: all of it, and the part of it that a README shows."""

from collections.abc import Iterator

from rda.experiments.checks import Judgement
from rda.experiments.claims import Claim, Verdict
from rda.experiments.evidence import Cell
from rda.labels import COMPARED
from rda.report.markdown import escaped, table_row
from rda.report.reproduction import Reproduction, factor
from rda.tasks import all_tasks


def render_reproduction_markdown(paper: Reproduction) -> str:
    """The tables, the claims and what is missing."""
    return "\n".join(_lines(paper)) + "\n"


def render_results(paper: Reproduction) -> str:
    """One table of our medians beside the published numbers, and the claims that did not hold."""
    return "\n".join(_results(paper)) + "\n"


def _lines(paper: Reproduction) -> Iterator[str]:
    yield from ("# The paper, reproduced", "", escaped(paper.headline), "")
    for view in paper.tables:
        yield from (f"## {view.title}", "", escaped(view.table.caption), "")
        yield from _table(view.cells)
        yield from (("", view.note, "") if view.note else ("",))
    yield from ("## Claims", "", "| claim | where | verdict | evidence |", "|---|---|---|---|")
    for claim, verdict in paper.claims:
        yield table_row(claim.text, claim.place, verdict.told, "; ".join(verdict.evidence))
    for task, cells in paper.activations.items():
        yield from ("", f"## Section 6.2 on {task}", "", "| unit | steps to the goal | runs |")
        yield "|---|---:|---:|"
        for cell in cells:
            yield table_row(cell.unit, cell.text, f"{len(cell.outcomes)} of {cell.wanted}")
    yield from ("", "## Lemma 1", "")
    yield "| unit | length | steps to learn it | highest log a, seed 0 |"
    yield "|---|---:|---:|---:|"
    for row in paper.lemma:
        highest = "" if row.highest is None else f"{row.highest:.1f}"
        yield table_row(row.unit, str(row.length), row.cell.text, highest)
    yield from ("", "## What the paper leaves open", "")
    yield (
        "A distance is the geometric mean of the factors between a reading's numbers and the "
        "published ones; with >, it is larger, because a unit did not reach its goal, here or "
        "there. Beside it, that of our settings for the same units."
    )
    yield from ("", "| task | settings | ours | distance | of our settings |")
    yield "|---|---|---|---:|---:|"
    for _, readings in paper.studies:
        for reading in readings:
            known = [f"{cell.unit} {cell.text}" for cell in reading.cells if cell.outcomes]
            far = factor(reading.distance), factor(reading.chosen_distance)
            yield table_row(reading.task, reading.changes, ", ".join(known) or "not run", *far)
    if paper.short:
        yield from ("", "## Not run yet", "")
        yield from (f"- {escaped(line)}" for line in paper.short)


def _table(cells: tuple[Cell, ...]) -> Iterator[str]:
    """One table of the paper beside our numbers."""
    yield "| unit | paper | ours | verdict |"
    yield "|---|---:|---:|---|"
    for cell in cells:
        verdict = cell.kind if cell.kind == "not run" else f"{cell.kind}, {cell.comparison}"
        missing = f"; {cell.missing}" if cell.missing and cell.kind != "not run" else ""
        yield table_row(cell.unit, str(cell.published), cell.text, f"{verdict}{missing}")


def _results(paper: Reproduction) -> Iterator[str]:
    yield from (escaped(paper.headline), "")
    yield table_row("steps to the goal, test accuracy or test bits", *COMPARED)
    yield "|---|" + "---:|" * len(COMPARED)
    for view in paper.tables:
        by_unit = {cell.unit: cell for cell in view.cells}
        title = all_tasks()[view.table.task].title
        yield table_row(title, *(_beside(by_unit[unit]) for unit in COMPARED))
    if any(map(_is_short, paper.cells)):
        yield from ("", "\\* So far with fewer seeds.")
    for judgement, heading in _HEADINGS.items():
        found = [(claim, one) for claim, one in paper.claims if one.judgement == judgement]
        if found:
            yield from ("", heading, "")
            yield from (_told(claim, verdict) for claim, verdict in found)


def _told(claim: Claim, verdict: Verdict) -> str:
    """A claim, and what stands against it where it is contradicted."""
    told = f"{claim.text.rstrip('.')} ({claim.place})."
    if verdict.as_printed is not None:
        told += f" {verdict.told[0].upper()}{verdict.told[1:]}."
    if verdict.judgement in _WITH_EVIDENCE:
        told += f" Evidence: {'; '.join(verdict.against)}."
    return f"- {escaped(told)}"


_HEADINGS: dict[Judgement, str] = {
    "contradicted": "What the paper says and our runs contradict:",
    "judged twice": "What is judged twice, because our unit is computed otherwise than printed:",
    "partly": "What they confirm in part:",
    "undecided": "What they leave undecided:",
    "another recipe": "What they cannot judge, because they were trained with another "
    "recipe than the paper's:",
}
_WITH_EVIDENCE = ("contradicted", "judged twice")


def _beside(cell: Cell) -> str:
    return f"{cell.middle}{'*' if _is_short(cell) else ''} ({cell.published})"


def _is_short(cell: Cell) -> bool:
    return bool(cell.outcomes and cell.missing)
