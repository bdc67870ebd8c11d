"""What a forward pass keeps of every step, so that the backward pass can be computed from it.

The values that a backward pass needs are functions of gates and states, which are gone by then. The
fewest values from which all of them can be computed again are a minimum cut of the graph of
expressions. Of several such cuts the last one is taken: what is kept is then as near as possible to
what is needed, and the least is computed twice.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

from rda.symbolic.expressions import Expression, in_order, symbols_in

if TYPE_CHECKING:
    from rda.symbolic.gradient import Gradient
    from rda.units.unit import Traced

UNLIMITED = 1_000_000
GONE, NEEDED = "gone", "needed"


class Kept(NamedTuple):
    """What is kept of every step, beside the output, which is there anyway."""

    sequences: tuple[str, ...]
    """Parts of the state: a backward step finds there its own new state and the state before it."""
    values: tuple[Expression, ...]


def choose(
    traced: Traced, gradient: Gradient, sums: Iterable[str] = (), in_half: bool = False
) -> Kept:
    """The least that has to be kept for a backward pass, and of equal choices the least work.

    Where values are stored `in_half` precision, a tanh near 1 has no digits left for its slope. Of
    equal choices that with more of the state is then taken, from which it is computed again.

    Parts that are `sums` are not kept unless h needs them: they grow, and a stored one may have few
    digits. The h of
    every step must come from what is kept, because the gradient of the recurrent weights needs it.
    """
    parts = traced.after.items()
    stored = [name for name, part in parts if part is not traced.output and name not in sums]
    found = [
        _with(traced, gradient, sequences)
        for sequences in _subsets(stored)
        if not any(symbols_in([traced.hidden], _at_every_step(traced, sequences)))
    ]
    if not found:  # h is a sum itself
        return choose(traced, gradient, (), in_half)

    def price(kept: Kept) -> tuple[int, int, int]:
        computed = in_order(gradient.results, known(traced, kept.sequences) | {*kept.values})
        count = len(kept.sequences) + len(kept.values)
        return count, -len(kept.sequences) if in_half else 0, len(computed)

    return min(found, key=price)


def known(traced: Traced, sequences: Iterable[str]) -> set[Expression]:
    """What a backward step can read, if these parts of the state are kept."""
    found = {traced.output, *traced.weights.values()}
    for name, part in traced.after.items():
        if name in sequences or part is traced.output:
            found |= {part, traced.before[name]}
    return found


def _at_every_step(traced: Traced, sequences: Iterable[str]) -> set[Expression]:
    """What there is after every step, if these parts of the state are kept."""
    return {traced.output, *(traced.after[name] for name in sequences)}


def _subsets(names: list[str]) -> Iterable[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


def _with(traced: Traced, gradient: Gradient, sequences: tuple[str, ...]) -> Kept:
    """The values to keep beside these sequences."""
    order = in_order(gradient.results, known(traced, sequences))
    capacity: dict[Hashable, dict[Hashable, int]] = defaultdict(lambda: defaultdict(int))
    incoming: set[Expression] = set()  # gradients, which only the backward pass has
    for each in order:
        if each.symbol.startswith("d.") or incoming.intersection(each.arguments):
            incoming.add(each)
        elif each.symbol:
            capacity[GONE][each, "in"] = UNLIMITED
        can_be_kept = each not in incoming and not (each.function and each.function.is_condition)
        capacity[each, "in"][each, "out"] = 1 if can_be_kept else UNLIMITED
        for argument in each.arguments:
            capacity[argument, "out"][each, "in"] = UNLIMITED
    for result in gradient.results:
        capacity[result, "out"][NEEDED] = UNLIMITED
    behind = _behind_the_cut(capacity)
    return Kept(
        sequences,
        tuple(each for each in order if (each, "out") in behind and (each, "in") not in behind),
    )


def _behind_the_cut(capacity: dict[Hashable, dict[Hashable, int]]) -> set[Hashable]:
    """The nodes between the last minimum cut and the target. Uses the capacities up."""
    while path := _way(capacity):
        for a, b in path:  # every way passes one value that can be kept, so it carries 1
            capacity[a][b] -= 1
            capacity[b][a] += 1
    backwards: dict[Hashable, list[Hashable]] = defaultdict(list)
    for a, targets in capacity.items():
        for b, left in targets.items():
            if left > 0:
                backwards[b].append(a)
    behind: set[Hashable] = {NEEDED}
    queue = deque(behind)
    while queue:
        for node in backwards[queue.popleft()]:
            if node not in behind:
                behind.add(node)
                queue.append(node)
    return behind


def _way(capacity: dict[Hashable, dict[Hashable, int]]) -> list[tuple[Hashable, Hashable]]:
    """The edges of a way from the source to the target with capacity left, if there is one."""
    came: dict[Hashable, Hashable] = {GONE: GONE}
    queue: deque[Hashable] = deque([GONE])
    while queue and NEEDED not in came:
        node = queue.popleft()
        for following, left in capacity[node].items():
            if left > 0 and following not in came:
                came[following] = node
                queue.append(following)
    path: list[tuple[Hashable, Hashable]] = []
    node = NEEDED
    while node in came and node != GONE:
        path.append((came[node], node))
        node = came[node]
    return path
