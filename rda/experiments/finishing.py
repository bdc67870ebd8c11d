"""What is left to do about a run that has ended: its unit is looked at, its record is thinned."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rda.analysis.looking import is_kept, keep_inspection
from rda.experiments.plan import Planned
from rda.training.derived import kept
from rda.training.locking import locked
from rda.training.record import INSPECTION, Record
from rda.training.status import RecordError, RunInUseError
from rda.training.thinning import thin


def finish(folder: Path, thinned: bool) -> str:
    """Look at its unit and thin its record, as far as that is left to do.

    A kill on the way leaves the rest to the next call. Returns why it could not be done, or an
    empty string.
    """
    try:
        if _is_unseen(folder):
            with locked(folder):  # another process could thin it while it is looked at
                if _is_unseen(folder):
                    keep_inspection(folder)
        if thinned:
            thin(folder)
    except RunInUseError:
        return ""  # who has it has just ended it and finishes it, or thins it now
    except (RecordError, OSError) as error:
        return str(error)
    return ""


def finish_earlier(
    plan: Sequence[Planned], folder: Path, thinned: bool, say: Callable[[str], None]
) -> bool:
    """Finish what ended while nobody was there to do it; whether that could be done."""
    failures = {run.name: finish(folder / run.name, thinned) for run in plan if run.done}
    for name, reason in failures.items():
        if reason:
            say(f"{name}: {reason}")
    return not any(failures.values())


def _is_unseen(folder: Path) -> bool:
    """Whether its inspection is missing, or of other weights than it has."""
    record = Record(folder)
    if record.status.thinned or not is_kept(record.settings):
        return False
    try:
        return kept(folder, INSPECTION) is None
    except RecordError:
        return True
