"""How much memory is free for sequences, so that too large a file is refused before it is read."""

import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rda.sequences.dataset import SequencesError

STATUS = Path("/proc/self/status")
MEMORY = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")
GROUP_FOLDERS = Path("/sys/fs/cgroup")
KNOWN_FOR = 0.1
"""Seconds: a folder of many small files must not ask for each."""
SPARED = 0.1
"""The share of the free memory that is left to everything else."""


def available() -> float:
    """Bytes that this process can still take: by its own limits, its control group's, and by what
    the machine has; infinite where nothing can be found out."""
    return _available(int(time.monotonic() / KNOWN_FOR))


@lru_cache(maxsize=1)
def _available(moment: int) -> float:
    found = [*_by_own_limits(), *_by_groups(), *_by_machine()]
    return max(min(found, default=float("inf")), 0.0) * (1 - SPARED)


def require(needed: float, what: str) -> None:
    """An error where `needed` bytes are not there."""
    free = available()
    if needed > free:
        raise _too_large(needed, free, what)


def require_rows(rows: int, share: float, bytes_a_row: int, what: str) -> None:
    """An error where the rows of a file do not fit, of which this many are in this share of it.

    The first rows may be shorter than the others: what they say must exceed memory twice.
    """
    free, certain = available(), float(rows * bytes_a_row)
    likely = certain / max(share, 1e-9)
    if certain > free or likely > free * (2 - share):
        raise _too_large(likely, free, what)


def _too_large(needed: float, free: float, what: str) -> SequencesError:
    return SequencesError(
        f"{what} needs about {_size(needed)} of memory, and {_size(free)} are free: take fewer "
        "columns (features), fewer rows, or a larger machine"
    )


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**29 else f"{count / 2**20:,.0f} MB"


def _by_own_limits() -> Iterator[float]:
    try:
        import resource
    except ModuleNotFoundError:  # Windows has none
        return
    used = _figures(STATUS, 1024)
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY and name in used:
            yield most - used[name]


def _by_groups() -> Iterator[float]:
    """Of control groups of both versions; what is cached of files would be given up."""
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            root, names = GROUP_FOLDERS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, names = (
                GROUP_FOLDERS / "memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            )
        else:
            continue
        group = root / place.strip("/")
        # Inside a container the path is often that of the host: its own group is then the root.
        for folder in {group, *group.parents} if group.is_dir() else {root}:
            if folder == root or root in folder.parents:
                yield from _by_group(folder, *names)


def _by_group(folder: Path, limit: str, usage: str) -> Iterator[float]:
    try:
        most, used = (float((folder / name).read_text()) for name in (limit, usage))
    except (OSError, ValueError):  # no limit is written as "max"
        return
    cached = _figures(folder / "memory.stat", 1)
    kinds = ("inactive_file", "active_file")
    yield most - used + sum(cached.get(f"total_{kind}", cached.get(kind, 0)) for kind in kinds)


def _by_machine() -> Iterator[float]:
    figures = _figures(MEMORY, 1024)
    if "MemAvailable" in figures:
        yield figures["MemAvailable"]


def _figures(path: Path, unit: int) -> dict[str, float]:
    """The numbers of a file of lines with a name and a number."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", " ").split() for line in lines]
    return {one[0]: float(one[1]) * unit for one in words if len(one) > 1 and one[1].isdigit()}
