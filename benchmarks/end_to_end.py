"""Whole training runs, as `rda train` records them: how soon each unit reached its task's goal."""

from collections.abc import Sequence
from pathlib import Path

from rda.labels import UNIT_LABELS
from rda.report.provenance import shared_environment
from rda.report.summary import Summary, summarise
from rda.report.wording import MISSING, count, duration, number, rate
from rda.tasks import all_tasks
from rda.training.record import Record, run_folders

HARDWARE = {
    "gpu": "",
    "cuda": "CUDA ",
    "torch": "torch ",
    "python": "Python ",
    "processor": "",
    "git commit": "commit ",
}


def read(runs: Path) -> list[Record]:
    """The runs of a folder, by task and unit as the paper has them."""
    tasks = list(all_tasks())
    return sorted(
        (Record(folder) for folder in run_folders(runs)),
        key=lambda run: (
            tasks.index(run.settings.task.name),
            UNIT_LABELS.index(run.settings.unit),
            run.name,
        ),
    )


def by_task(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The runs of each task."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.settings.task.name, []).append(record)
    return groups


def render(records: Sequence[Record]) -> str:
    """One table of all runs."""
    shared = shared_environment(records)
    known = {key: fact for key, fact in shared.items() if fact != MISSING}
    if "git commit" in known:
        known["git commit"] = f"`{known['git commit'][:7]}`"
    facts = [f"{text}{known[key]}" for key, text in HARDWARE.items() if key in known]
    lines = [
        f"{', '.join(facts)}." if facts else "Not all of these ran on the same machine.",
        "",
        "| task | unit | goal reached | steps/s | time | metric |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        run = summarise(record)
        cells = (
            ", ".join([run.task, *run.brief_differences]),
            run.unit,
            _goal(run, record),
            rate(run.steps_per_second),
            duration(record.status.seconds),
            _metric(run),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "At the paper's sizes but for what stands beside the task. Time is that of training, "
        "without evaluation and saving.",
    ]
    return "\n".join(lines)


def _goal(run: Summary, record: Record) -> str:
    if run.goal_step is not None:
        return f"step {count(run.goal_step)}"
    said = f"{count(run.step)} steps" + ("" if run.ended else f", {run.state}")
    return f"no goal, {said}" if record.goal is None else f"not reached in {said}"


def _metric(run: Summary) -> str:
    """On the test part where there is one, otherwise of the last training batches."""
    if run.test is not None:
        return f"test {run.metric_name} {number(run.test)}"
    return f"{run.metric_name} {number(run.metric)}"
