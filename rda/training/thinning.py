"""Makes the record of a run that has ended small enough to keep in a repository.

Of its steps a few hundred rows are kept, the steps of its goals among them. Each kept row also
holds the mean of every column since the row before, so that a smooth curve can still be drawn.
Evaluations are all kept; checkpoints and weights are removed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from rda.files import write_atomically
from rda.training import checkpoint
from rda.training.journal import as_line
from rda.training.locking import locked
from rda.training.manifest import MANIFEST, write_manifest
from rda.training.record import (
    CHECKPOINTS,
    DERIVED,
    MEAN,
    METRICS,
    MODEL,
    SEALED,
    STATUS,
    TIMING,
    Record,
    as_json,
    rows,
    write_status,
)
from rda.training.status import RecordError

STEPS_KEPT = 300
TIMINGS_KEPT = 40

Row = dict[str, Any]
Item = TypeVar("Item")


def thin(folder: Path) -> None:
    """Thin the record of a run that has ended.

    A kill on the way leaves a record that says that it is thinned and has no manifest yet; the
    same call then does the rest.
    """
    if _is_to_be_thinned(Record(folder)):
        with locked(folder):
            if _is_to_be_thinned(Record(folder)):  # another process may have done it meanwhile
                _thin(folder)


def _is_to_be_thinned(record: Record) -> bool:
    """Whether something is left to do; raises where the run has not ended."""
    status = record.status
    if not status.ended:
        raise RecordError(f"run {record.name} is {status.state}: only a run that ended is thinned")
    return not (status.thinned and status.sealed)


def _thin(folder: Path) -> None:
    record = Record(folder)
    status = record.status
    if not status.thinned:
        record.verify()
    write_status(folder, replace(status, thinned=True, sealed=False))
    (folder / MANIFEST).unlink(missing_ok=True)
    goals = {status.goal_step, status.trailing_goal_step}
    metrics, timing = list(rows(folder / METRICS)), list(rows(folder / TIMING))
    _write(folder / METRICS, _few(metrics, goals))
    _write(folder / TIMING, evenly(timing, TIMINGS_KEPT))
    checkpoint.clear(folder / CHECKPOINTS)
    (folder / MODEL).unlink(missing_ok=True)
    final = replace(status, thinned=True, sealed=True)
    write_manifest(folder, (*SEALED, *DERIVED), {STATUS: as_json(asdict(final))})
    write_status(folder, final)


def _write(path: Path, kept: Iterable[Row]) -> None:
    write_atomically(path, b"".join(map(as_line, kept)))


def _few(found: Sequence[Row], goals: set[int | None]) -> Iterator[Row]:
    """Some of the steps with their means, and every evaluation, in the order of the file."""
    if any(f"{MEAN}loss" in row for row in found):
        yield from found
        return
    steps = [row for row in found if "loss" in row]
    kept = {row["step"] for row in evenly(steps, STEPS_KEPT)} | goals
    waiting: list[Row] = []
    for row in found:
        if "loss" not in row:
            yield row
            continue
        waiting.append(row)
        if row["step"] in kept:
            yield {**row, **_means(waiting)}
            waiting = []


def _means(waiting: Sequence[Row]) -> Row:
    columns = [name for name in waiting[-1] if name not in ("step", "skipped")]
    return {
        f"{MEAN}{name}": float(f"{sum(row[name] for row in waiting) / len(waiting):.6g}")
        for name in columns
    }


def evenly(found: Sequence[Item], most: int) -> list[Item]:
    """Evenly spread, the first and the last among them."""
    if len(found) <= most:
        return list(found)
    last = len(found) - 1
    return [found[i] for i in sorted({round(i * last / (most - 1)) for i in range(most)})]
