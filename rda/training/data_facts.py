"""What a run has recorded of its data, and whether the data is still the same."""

from collections.abc import Mapping
from typing import Any

from rda.tasks.task import Source
from rda.training.status import RecordError, is_count


def recorded_facts(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts in the values of a checkpoint or a model; none in those of earlier versions."""
    facts = values.get("data")
    return facts if isinstance(facts, dict) else {}


def refuse_other_data(run: str, recorded: Mapping[str, Any], source: Source) -> None:
    """Raise a RecordError where the data is not what a run was begun with.

    Facts that the run has not recorded are not compared: a later version has added them.
    """
    now = source.facts()
    if all(name in now and now[name] == value for name, value in recorded.items()):
        return
    what = getattr(source.task, "file", "") or "the data"
    sizes = [facts["bytes"] for facts in (recorded, now) if is_count(facts.get("bytes"))]
    told = f", from {sizes[0]:,} to {sizes[1]:,} bytes" if len(set(sizes)) == 2 else ""
    raise RecordError(
        f"{what} has changed since run {run} was begun{told}: bring it back as it was, or train "
        "anew with another --name or --force"
    )
