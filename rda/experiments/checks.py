"""What a claim is made of: statements about our runs, each with its answer.

One rule answers all that compare units: yes if every run of one is better than every run of the
other, no if every run is worse, undecided if their ranges touch. Two equal units of three runs each
lie apart by chance once in ten times. A run that did not reach its goal may need any number of
steps beyond those that it took; one that died is worse than any number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from rda.experiments.evidence import Cell, Evidence, Outcome, did_not_learn

Answer = Literal["yes", "no", "undecided"]
Judgement = Literal[
    "confirmed",
    "partly",
    "undecided",
    "contradicted",
    "judged twice",
    "another recipe",
    "not run",
]
"""A claim is judged twice where ours are computed otherwise than the printed equations. It is of
another recipe where none of its runs were trained as the paper's were."""
ANOTHER_RECIPE: Final = "another recipe"


class NotRunError(Exception):
    """A run that a check needs is not there; says which."""


@dataclass(frozen=True)
class Check:
    """Whether something that a claim says holds, and the numbers."""

    answer: Answer
    text: str
    aside: str = ""
    """Why it does not count for the claim, though it is told."""
    parts: "tuple[Check, ...]" = ()
    """The checks of which so many have to hold."""

    def __str__(self) -> str:
        told = f"{self.text} ({self.answer}{f', {self.aside}' if self.aside else ''})"
        return ": ".join(filter(None, (told, "; ".join(map(str, self.parts)))))


class Runs:
    """Asks our runs; asking for one that is not there ends the judgement."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def ahead(
        self, task: str, units: Sequence[str], others: Sequence[str], times: float = 1.0
    ) -> Check:
        """Whether each of the units is better than each of the others; steps by so many times."""
        mine, theirs = ([self._cell(task, unit) for unit in group] for group in (units, others))
        return _ahead(mine, theirs, times)

    def one_ahead(self, task: str, units: Sequence[str], other: str) -> Check:
        """Whether at least one of the units is better than another."""
        mine, theirs = [self._cell(task, unit) for unit in units], self._cell(task, other)
        found = [_beats(cell, theirs) for cell in mine]
        answer: Answer = "yes" if "yes" in found else "undecided" if "undecided" in found else "no"
        return _check([*mine, theirs], answer, _told([*mine, theirs]))

    def activation_ahead(self, task: str, unit: str, other: str) -> Check:
        """Whether a unit is better than another in the study of f_a and f_o."""
        mine, theirs = (_run(self.evidence.activation(task, one)) for one in (unit, other))
        return _ahead([mine], [theirs], 1.0)

    def learns(self, task: str, unit: str) -> Check:
        """Whether every run learned the task; no if none did."""
        return _learns(self._cell(task, unit))

    def learns_alternating(self, unit: str, length: int) -> Check:
        """Whether every run for Lemma 1 of one length learned it; no if none did."""
        return _learns(_run(self.evidence.lemma(unit, length)))

    def highest_attention(self, unit: str, length: int) -> float:
        """The highest log a_t of a trained unit on the alternating task."""
        found = self.evidence.highest_attention(unit, length)
        if found is None:
            raise NotRunError(f"{unit} on alternating, length {length}, is not run")
        return found

    def fails(self, task: str, unit: str) -> Check:
        """Whether no run learned the task; no if every one did."""
        return _fails(self._cell(task, unit))

    def activation_fails(self, task: str, unit: str) -> Check:
        """Whether no run of the study of f_a and f_o learned the task; no if every one did."""
        return _fails(_run(self.evidence.activation(task, unit)))

    def fewer_fail(self, task: str, unit: str, other: str) -> Check:
        """Whether fewer runs of a unit than of another fail, in the study of f_a and f_o."""
        cells = [_run(self.evidence.activation(task, one)) for one in (unit, other)]
        mine, theirs = (sum(_failed(cell, one) for one in cell.outcomes) for cell in cells)
        answer: Answer = "yes" if mine < theirs else "no" if mine > theirs else "undecided"
        text = f"{task}: {unit} misses the goal in {mine} runs, {other} in {theirs}"
        return _check(cells, answer, text)

    def alike(self, task: str, unit: str, other: str) -> Check:
        """Whether two units cannot be told apart."""
        cells = [self._cell(task, one) for one in (unit, other)]
        first, second = cells
        apart = _beats(first, second) != "undecided"
        return _check(cells, "no" if apart else "yes", _told(cells))

    def close_behind(self, task: str, unit: str, other: str, bits: float) -> Check:
        """Whether a unit needs at most so many bits more than another."""
        cells = [self._cell(task, one) for one in (unit, other)]
        (least, most), (others_least, others_most) = map(_costs, cells)
        nearest, farthest = round(least - others_most, 3), round(most - others_least, 3)
        answer: Answer = "yes" if farthest <= bits else "no" if nearest > bits else "undecided"
        text = f"{unit} beside {other}: {nearest:+.3f} to {farthest:+.3f} bits, allowed {bits:g}"
        return _check(cells, answer, text)

    def as_good(self, task: str, unit: str) -> Check:
        """Whether a unit does as well as the paper says, or better."""
        cell = self._cell(task, unit)
        good = cell.kind in ("as published", "better")
        text = f"{_told([cell])}, published {cell.published}"
        return _check([cell], "yes" if good else "no", text)

    def _cell(self, task: str, unit: str) -> Cell:
        return _run(self.evidence.cell(task, unit))


def opposite(answer: Answer) -> Answer:
    """The answer to the contrary of a statement."""
    return "no" if answer == "yes" else "yes" if answer == "no" else answer


def often(checks: Sequence[Check]) -> Check:
    """Half of the cases: the paper says often of two in three of its tables."""
    return _so_many("often", lambda count: math.ceil(count / 2), checks)


def mostly(checks: Sequence[Check]) -> Check:
    """More than half of the cases."""
    return _so_many("mostly", lambda count: count // 2 + 1, checks)


def almost_always(checks: Sequence[Check]) -> Check:
    """All cases but one."""
    return _so_many("almost always", lambda count: count - 1, checks)


def _so_many(words: str, needed_of: Callable[[int], int], checks: Sequence[Check]) -> Check:
    counted = [check.answer for check in checks if not check.aside]
    if not counted:
        return Check("undecided", words, checks[0].aside, tuple(checks))
    needed, held = max(1, needed_of(len(counted))), counted.count("yes")
    possible = held + counted.count("undecided")
    answer: Answer = "yes" if held >= needed else "no" if possible < needed else "undecided"
    return Check(answer, f"{words}, in {needed} of {len(counted)}", "", tuple(checks))


def _ahead(mine: Sequence[Cell], theirs: Sequence[Cell], times: float) -> Check:
    pairs = [_beats(*pair, times) for pair in product(mine, theirs)]
    answer: Answer = "no" if "no" in pairs else "undecided" if "undecided" in pairs else "yes"
    return _check([*mine, *theirs], answer, _told([*mine, *theirs]))


def _beats(mine: Cell, other: Cell, times: float = 1.0) -> Answer:
    """The rule."""
    (least, most), (others_least, others_most) = _costs(mine), _costs(other)
    if times * most < others_least:
        return "yes"
    return "no" if times * least > others_most else "undecided"


def _costs(cell: Cell) -> tuple[float, float]:
    """What the best and the worst run cost, where less is better."""
    bounds = [_cost(cell, one) for one in cell.outcomes]
    return min(least for least, _ in bounds), max(most for _, most in bounds)


def _cost(cell: Cell, outcome: Outcome) -> tuple[float, float]:
    if outcome.problem:
        return math.inf, math.inf
    if cell.measure == "accuracy":
        return -outcome.value, -outcome.value
    return float(outcome.steps) if math.isinf(outcome.value) else outcome.value, outcome.value


def _learns(cell: Cell) -> Check:
    failures = {_failed(cell, one) for one in cell.outcomes}
    answer: Answer = "undecided" if len(failures) > 1 else "no" if True in failures else "yes"
    return _check([cell], answer, _told([cell]))


def _fails(cell: Cell) -> Check:
    found = _learns(cell)
    return Check(opposite(found.answer), found.text, found.aside)


def _failed(cell: Cell, outcome: Outcome) -> bool:
    return bool(outcome.problem) or did_not_learn(cell.measure, outcome.value)


def _check(cells: Sequence[Cell], answer: Answer, text: str) -> Check:
    """What runs say: nothing yet where some are missing, and of the paper nothing where they were
    trained by another recipe."""
    short = any(len(cell.outcomes) < cell.wanted for cell in cells)
    aside = ANOTHER_RECIPE if any(cell.departures for cell in cells) else ""
    return Check("undecided" if short else answer, text, aside)


def _told(cells: Sequence[Cell]) -> str:
    return f"{cells[0].task}: {', '.join(f'{cell.unit} {cell.text}' for cell in cells)}"


def _run(cell: Cell) -> Cell:
    """The same cell, if it was run."""
    if not cell.outcomes:
        raise NotRunError(f"{cell.unit} on {cell.task} is not run")
    return cell
