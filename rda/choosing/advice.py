"""Which unit to take, in words, and no word that the runs do not hold."""

from collections.abc import Sequence

from rda.choosing.entries import Entry
from rda.choosing.statistics import can_confirm, differs, within
from rda.settings import SCALED_ERROR
from rda.wording import counted, listed

MUCH_QUICKER = 1.2
"""How many times as quick a unit has to be to be worth a remark."""
NEAR = 0.01
"""Share of the best score within which a quicker unit has to be, for certain."""


def advice(ranked: Sequence[Entry], metric: str, problem: str) -> tuple[str, Entry | None]:
    """In words, and the unit to take: the one with the best score, unless a baseline scored as
    well or better. How quick a unit is depends on the machine, and decides nothing."""
    units = [entry for entry in ranked if entry.is_unit]
    if not units:
        return "No unit could be trained.", None
    first, rest = units[0], units[1:]
    pieces = _pieces(first.pieces, problem)
    sentences = [*_best(units, metric), *_undertrained(units)]
    sentences += _beside_units(first, rest, pieces)
    beside, is_needed = _beside_baselines(ranked, first, metric, pieces)
    sentences += beside
    if is_needed and rest:
        sentences += [f"Take {first.name}.", *_quicker(first, rest, metric)]
    return " ".join(sentences), first if is_needed else None


def score_name(metric: str) -> str:
    """What a score is, in words."""
    return {"accuracy": "accuracy", SCALED_ERROR: "mean scaled error"}.get(
        metric, "mean absolute error"
    )


def _pieces(count: int, problem: str) -> str:
    if problem == "forecast":
        return f"{count:,} {'stretch' if count == 1 else 'stretches'} of time"
    return counted(count, "sequence")


def _best(units: Sequence[Entry], metric: str) -> list[str]:
    first = units[0]
    tied = [entry.name for entry in units if entry.score.mean == first.score.mean]
    best = f"the best {score_name(metric)} on the test part: {first.score}."
    if len(tied) == 1:
        return [f"{first.name} has {best}"]
    return [f"{listed(tied)} have {best} {first.name} comes first of them in the list of units."]


def _undertrained(units: Sequence[Entry]) -> list[str]:
    falling = [entry for entry in units if entry.may_help]
    if not falling:
        return []
    options = listed(sorted({entry.may_help for entry in falling}))
    return [
        f"The validation loss of {_names(falling)} was still falling at the last step: more "
        f"{options} may help."
    ]


def _beside_units(first: Entry, rest: Sequence[Entry], pieces: str) -> list[str]:
    beside = [(_relation(first, entry), entry) for entry in rest]
    groups = {
        relation: [entry for found, entry in beside if found == relation] for relation in _SENTENCES
    }
    return [_SENTENCES[found](first, some, pieces) for found, some in groups.items() if some]


def _relation(first: Entry, other: Entry) -> str:
    """What can be said of two scores beside which of them is better."""
    if differs(first.results, other.results):
        return "differ"
    return "alike" if first.score.overlaps(other.score) else "apart"


def _beside_baselines(
    ranked: Sequence[Entry], first: Entry, metric: str, pieces: str
) -> tuple[list[str], bool]:
    """In words, and whether a unit is of use at all."""
    simple = next((entry for entry in ranked if not entry.is_unit), None)
    if simple is None:
        return [], True
    sign = -1 if metric == "accuracy" else 1
    is_better = sign * first.score.mean < sign * simple.score.mean
    best = f"The best baseline, {simple.name}, reaches {simple.score}"
    relation = _relation(first, simple)
    if relation == "differ":
        if is_better:
            return [f"{best}, and {first.name} is better."], True
        return [f"But {simple.name} is better, {simple.score}: take that."], False
    found = f"{best}. {_SENTENCES[relation](first, [simple], pieces)}"
    if is_better:
        return [found], True
    return [f"{found} No unit scored better: nothing here shows that one is needed."], False


def _better(first: Entry, others: Sequence[Entry], pieces: str) -> str:
    return (
        f"{first.name} is better than {_names(others)}: on the same {pieces} the 95% interval of "
        "the difference leaves out 0."
    )


def _not_told_apart(first: Entry, others: Sequence[Entry], pieces: str) -> str:
    return f"{first.name} could not be told apart from {_names(others)} with {pieces}."


def _not_confirmed(first: Entry, others: Sequence[Entry], pieces: str) -> str:
    cannot = "does not" if can_confirm(first.pieces) else "cannot"
    return (
        f"The intervals of {first.name} and {_names(others)} are apart, but with {pieces} a paired "
        f"test {cannot} confirm it."
    )


_SENTENCES = {"differ": _better, "alike": _not_told_apart, "apart": _not_confirmed}


def _quicker(first: Entry, rest: Sequence[Entry], metric: str) -> list[str]:
    near = NEAR * abs(first.score.mean)
    # Right or wrong on each of N sequences: what was seen on none may still happen on 3 of N.
    unseen = 3 / first.pieces if metric == "accuracy" else 0.0
    found = [
        entry
        for entry in rest
        if entry.speed > MUCH_QUICKER * first.speed > 0
        and within(first.results, entry.results, near - unseen)
    ]
    if not found:
        return []
    quickest = max(found, key=lambda entry: entry.speed)
    return [
        f"{quickest.name} is within {NEAR:.0%} of it and was quicker here: {quickest.speed:.3g} "
        f"steps a second, {first.name} {first.speed:.3g}."
    ]


def _names(entries: Sequence[Entry]) -> str:
    return listed([entry.name for entry in entries])
