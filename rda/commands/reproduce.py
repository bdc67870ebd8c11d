"""rda reproduce: the paper's tables and figures, run for real."""

import argparse
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rda.commands.finding import folder_of_runs
from rda.commands.many import train_on
from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.commands.training import as_usage_errors, read_files_of
from rda.experiments.catalogue import Experiment, chosen, experiments, runs_by_name
from rda.experiments.plan import Planned, SecondsPerStep, cost, in_order, make_plan
from rda.options import Cluster, Machine, Place, default_runs
from rda.settings import check_at_least
from rda.training.settings import RunSettings, default_name
from rda.training.status import RecordError
from rda.wording import clock_time, counted

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from rda.experiments.sharing import Sharing

SUMMARY = "the paper's tables and figures, run for real and resumed where they stopped"
DESCRIPTION = """\
Train the runs behind the paper's tables and figures. Says first what is recorded already, what
is missing and what it will cost on this machine; then trains what is missing, the cheapest first,
several runs at a time where a GPU can be shared. Stops cleanly when the budget is spent or after
Ctrl-C: the same command goes on from there. A run that another process trains is waited for.
"""
EXAMPLES = """\
Examples:
  rda reproduce table-6                     Table 6, as many seeds as we ask for
  rda reproduce table-1 table-2 --seeds 1   one seed of each
  rda reproduce table-7 --data-dir data     Table 7, with enwik8 from a folder
  rda reproduce table-5 --units RWA,GRU     two of its units
  rda reproduce all --budget 30             what fits into half an hour
  rda reproduce all --plan                  only say what is missing and what it costs
  rda reproduce --check                     what the recorded runs say about the paper's claims
  rda reproduce --check --runs-dir results/paper   the same of the runs in a checkout of rda
  rda reproduce table-6 --small             small twins of the runs, for a machine without a GPU
  rda reproduce all --on ray://head:10001   all of them on a Ray cluster
"""


@dataclass(frozen=True)
class ReproduceOptions:
    """What to run, and where."""

    seeds: int = 0
    """Seeds of each unit; 0 for as many as each experiment asks for."""
    units: str = ""
    """Only the runs of these units, separated by commas: RDA-exp-tanh,GRU."""
    budget: float = 0.0
    """Stop cleanly after this many minutes; 0 for no limit."""
    small: bool = False
    """Run the small twins of the tasks, which show the machinery and not the paper's numbers."""
    plan: bool = False
    """Only say what would be run and what it costs."""
    check: bool = False
    """Only say what the recorded runs say about each claim of the paper; exit code 0 if every claim
    has a verdict."""
    workers: int = 0
    """Runs at a time; 0 chooses. Those of Wikipedia at full size fill a GPU and run alone."""
    threads: int = 0
    """CPU threads of each run; 0 divides torch's own choice among the runs at a time. Fewer are
    quicker where others use the cores."""
    thin: bool = False
    """Keep of every run that ends, or has ended before, a few hundred points and no weights, for a
    repository."""
    device: str = "auto"
    """Device: cpu, cuda, ...; auto takes the GPU where there is one."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    data_dir: str = ""
    """Folder with MNIST and enwik8 ($RDA_DATA); what is missing is downloaded."""

    def __post_init__(self) -> None:
        for name in ("seeds", "budget", "workers", "threads"):
            check_at_least(name, getattr(self, name), 0)


def add(parser: Parser, explain: bool) -> None:
    """The experiments and the options."""
    known = experiments()
    titles = "\n".join(f"  {name:<16} {found.title}" for name, found in known.items())
    parser.description = DESCRIPTION
    parser.epilog = f"Experiments:\n{titles}\n  {'all':<16} all of the paper's\n\n{EXAMPLES}"
    parser.usage = "rda reproduce EXPERIMENT ... [options]"
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="table-1, ..., or all")
    add_options(parser, "options", ReproduceOptions, explain)
    add_options(parser, "cluster", Cluster, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Show the plan, then train what is missing."""
    from rich.console import Console

    options: ReproduceOptions = make(ReproduceOptions, given_values(asked, ReproduceOptions))
    if options.check:
        if asked.experiments not in ([], ["all"]) or options.units:
            given = " ".join(asked.experiments) or "--units"
            raise UsageError(f"--check looks at every claim of the paper: leave {given} away")
        return _check(Console(), folder_of_runs(options.runs_dir))
    if not asked.experiments:
        names = ", ".join(experiments())
        raise UsageError(f"rda reproduce needs an experiment: {names}, all")
    asked_for = {"names": asked.experiments, "seeds": options.seeds, "small": options.small}
    found: list[Experiment] = make(chosen, {**asked_for, "units": options.units})
    cluster: Cluster = make(Cluster, given_values(asked, Cluster))
    if cluster.on:
        return _on_cluster(Console(), found, cluster, options, command)
    from rda.experiments.speed import Speeds
    from rda.training.resources import find_device

    console = Console()
    with as_usage_errors():
        device = find_device(options.device)
    plan = make_plan(runs_by_name(found), options.runs_dir)
    if device.type == "cpu" and options.device == "auto" and not options.small:
        if options.plan:
            return _count(console, found, plan)
        raise UsageError(
            "there is no GPU here, and on a CPU runs of the paper's size take days: --small runs "
            "their small twins, --device cpu the real ones all the same"
        )
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)  # with which the cost of a step is measured too
    files = read_files_of((run.settings for run in plan if run.missing), options.data_dir)
    speeds = Speeds(
        device, options.runs_dir, lambda settings: files.get(settings.task.name), console.print
    )
    with _sharing(device, options.workers) as sharing:

        def seconds(settings: RunSettings) -> float:
            return speeds(settings) / sharing.gain_for(settings)

        _show(console, found, plan, seconds, sharing, options)
        if options.plan:
            return _code_of(plan)
        finished = _finish_earlier(console, plan, options)
        if not any(run.missing or run.busy for run in plan):
            return max(_code_of(plan), int(not finished))
        code = _train(console, plan, seconds, sharing, options, device)
        return code or int(not finished)


def _on_cluster(
    console: "Console",
    found: Sequence[Experiment],
    cluster: Cluster,
    options: ReproduceOptions,
    command: str,
) -> int:
    """Train what is missing on a cluster, whose speed is not known here."""
    plan = make_plan(runs_by_name(found), options.runs_dir)
    # A node waits for a run that another process trains, and says so where that takes too long.
    missing = {run.name: run.settings for run in plan if run.missing or run.busy}
    console.print(f"{len(missing)} of {counted(len(plan), 'run')} to train on {cluster.on}.")
    if options.plan:
        return _code_of(plan)
    finished = _finish_earlier(console, plan, options)
    if not missing:
        return max(_code_of(plan), int(not finished))
    from rda.experiments.finishing import finish

    def ended(folder: Path) -> None:
        reason = finish(folder, options.thin)
        if reason:
            raise RecordError(reason)

    machine, place = (
        Machine(device=options.device),
        Place(runs_dir=options.runs_dir, data_dir=options.data_dir),
    )
    trained = train_on(missing, cluster, machine, place, command, options.budget, ended)
    if trained.stopped == "budget":
        return 3
    return 130 if trained.stopped else int(trained.failed or not finished)


def _finish_earlier(console: "Console", plan: Sequence[Planned], options: ReproduceOptions) -> bool:
    """Do what a killed command has left undone about runs that have ended; whether all could be."""
    from rda.experiments.finishing import finish_earlier

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return finish_earlier(plan, options.runs_dir, options.thin, say)


def _code_of(plan: Sequence[Planned]) -> int:
    """The exit code where nothing is trained: 1 if a run has failed before."""
    return int(any(run.failed for run in plan))


def _check(console: "Console", folder: Path) -> int:
    """Each claim with its verdict and the numbers behind it."""
    from rda.experiments.claims import tally, verdicts
    from rda.experiments.evidence import Evidence

    found = list(verdicts(Evidence(folder)))
    for claim, verdict in found:
        said = "; ".join(verdict.evidence)
        for line in (f"{verdict.told}: {claim.text} ({claim.place})", f"  {said}"):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(tally(verdict for _, verdict in found))
    waiting = sum(verdict.judgement == "not run" for _, verdict in found)
    if waiting:
        console.print(f"{waiting} claims have no verdict yet: rda reproduce all trains the rest.")
    return 1 if waiting else 0


def _sharing(device: "torch.device", workers: int) -> "AbstractContextManager[Sharing]":
    from rda.experiments.sharing import Sharing, shared_gpu

    if device.type == "cuda":
        return shared_gpu(workers)
    workers = workers or 1
    return nullcontext(Sharing(workers, 1.0, {}, f"runs at a time: {workers}"))


def _count(console: "Console", found: Sequence[Experiment], plan: Sequence[Planned]) -> int:
    """What is recorded and what is missing, on a machine that is not asked to train it."""
    _show_counts(console, found, plan)
    missing = counted(sum(run.missing for run in plan), "run")
    if not any(run.missing for run in plan):
        console.print("Nothing is left to train.")
        return _code_of(plan)
    console.print(
        f"{missing} to train. There is no GPU here, so what that costs is not known; with --device "
        "cpu it is measured on this CPU.",
        soft_wrap=True,
    )
    return _code_of(plan)


def _show_counts(
    console: "Console",
    found: Sequence[Experiment],
    plan: Sequence[Planned],
    seconds: SecondsPerStep | None = None,
) -> None:
    from rich.table import Table

    by_name = {run.name: run for run in plan}
    table = Table(box=None, pad_edge=False)
    table.add_column("experiment")
    for name in ("runs", "done", "begun", "failed", "missing", *(["time"] if seconds else [])):
        table.add_column(name, justify="right")
    for experiment in found:
        mine = [by_name[default_name(settings)] for settings in experiment.runs]
        time_left = [clock_time(sum(cost(run, seconds) for run in mine))] if seconds else []
        counts = [
            len(mine),
            sum(run.done for run in mine),
            sum(run.begun for run in mine),
            sum(run.failed for run in mine),
            sum(run.missing and not run.begun for run in mine),
        ]
        table.add_row(experiment.name, *map(str, counts), *time_left)
    console.print(table)


def _show(
    console: "Console",
    found: Sequence[Experiment],
    plan: Sequence[Planned],
    seconds: SecondsPerStep,
    sharing: "Sharing",
    options: ReproduceOptions,
) -> None:
    _show_counts(console, found, plan, seconds)
    total = sum(cost(run, seconds) for run in plan)
    missing = [run.settings for run in plan if run.missing]
    console.print(
        f"{len(missing)} runs to train, about {clock_time(total)} on this machine; {sharing.note}."
    )
    alone = sum(sharing.workers_for(settings) < sharing.workers for settings in missing)
    if alone:
        console.print(f"Trained alone, because one fills the device: {counted(alone, 'run')}.")
    for run in plan:
        if run.failed:
            reason = run.problem or (run.status.reason if run.status else "")
            console.print(f"{run.name} failed: {reason}", markup=False, soft_wrap=True)
    if options.plan:
        for run in plan:
            if run.busy:
                console.print(f"{run.name} is trained by another process", markup=False)
    if options.small:
        console.print("These are small twins: they show how it works, not the paper's numbers.")
    if options.budget and 60 * options.budget < total:
        console.print(f"The budget of {options.budget:g} minutes is for the cheapest of them.")


def _train(
    console: "Console",
    plan: Sequence[Planned],
    seconds: SecondsPerStep,
    sharing: "Sharing",
    options: ReproduceOptions,
    device: "torch.device",
) -> int:
    import torch

    from rda.experiments.schedule import Schedule
    from rda.experiments.watching import Board

    threads = options.threads or max(1, torch.get_num_threads() // sharing.workers)
    line = ["--device", str(device), "--threads", str(threads)]
    if options.data_dir:
        line += ["--data-dir", options.data_dir]
    deadline = time.monotonic() + 60 * options.budget if options.budget else float("inf")
    queue, busy = in_order(plan, seconds), [run for run in plan if run.busy]
    schedule = Schedule(
        queue, options.runs_dir, sharing, line, deadline=deadline, thinned=options.thin
    )
    with Board(console, [*queue, *busy], seconds, deadline) as board:
        for run in busy:
            schedule.wait_for(run, board)
        stopped = schedule.work(board)
    console.print(board.summary(), markup=False, soft_wrap=True)
    if stopped == "budget":
        console.print("The budget is spent; the same command goes on from here.")
        return 3
    if stopped:
        console.print("Interrupted; everything is saved, the same command goes on from here.")
        return 130
    return 1 if board.failed else 0
