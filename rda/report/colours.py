"""One colour for each unit, the same in terminal, picture and page.

Every colour has a contrast of 3 or more on white and on the page's dark ground. For every kind of
colour vision, the five compared units stay at least 19 apart (CIE76), all units of the paper 16,
and the spare colours 12 from the five and from each other. Few colours fit between the two
grounds, so curves can also be told apart by their dashes and labels.
"""

from collections.abc import Iterable
from zlib import crc32

COLOURS = {
    "RDA-exp-tanh": "#d55e00",
    "RDA-sigmoid-id": "#0072b2",
    "RWA": "#9235fe",
    "LSTM": "#0fa793",
    "GRU": "#8a7a4a",
    "RDA-exp-id": "#c90322",
    "RDA-sigmoid-tanh": "#8e91be",
    "RDA-softplus-tanh": "#596d5b",
    "RDA-softplus-id": "#6e4fd0",
    "RDA-relu-tanh": "#9b467e",
    "RDA-relu-id": "#c176e5",
}
SPARE = (
    "#8478fc",
    "#fc3c84",
    "#c00ca8",
    "#849c30",
    "#846024",
    "#d800e4",
    "#a8609c",
)
"""Colours for units that are not in the table, such as a user's own."""


def unit_colours(units: Iterable[str]) -> dict[str, str]:
    """A colour for each unit.

    A unit that is not in the table gets a spare colour by its name, so that it mostly keeps its
    colour from one comparison to the next. Where two units would share one, the later in the
    alphabet takes the next free colour; colours repeat only when there are no more.
    """
    wanted = set(units)
    chosen = {unit: COLOURS[unit] for unit in wanted if unit in COLOURS}
    free: list[str] = []
    for unit in sorted(wanted - set(chosen)):
        free = free or list(SPARE)
        first = crc32(unit.encode(errors="replace")) % len(SPARE)
        order = (*SPARE[first:], *SPARE[:first])
        chosen[unit] = next(colour for colour in order if colour in free)
        free.remove(chosen[unit])
    return chosen
