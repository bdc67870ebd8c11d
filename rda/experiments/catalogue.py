"""The experiments of the paper by name, each as the runs that it takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rda.experiments.paper import TABLES, Table
from rda.experiments.protocol import STUDIES, Study
from rda.labels import COMPARED, RDA_LABELS, UNIT_LABELS
from rda.names import look_up
from rda.training.settings import (
    RunSettings,
    default_name,
    full_settings,
    small_settings,
    with_changes,
)

ACTIVATION_TASKS = ("addition", "multicopy")
ACTIVATION_SEEDS = 3
LEMMA_LENGTHS = (10, 20, 40, 80, 160, 320)
LEMMA_UNITS = ("RWA", "RDA-exp-tanh")
LEMMA_SEEDS = 3


@dataclass(frozen=True)
class Experiment:
    """A part of the paper, and its runs: every unit, every seed."""

    name: str
    title: str
    runs: tuple[RunSettings, ...]


def experiments(seeds: int | None = None, small: bool = False) -> dict[str, Experiment]:
    """All experiments. `seeds` replaces the number that each of them asks for."""
    size = small_settings if small else full_settings
    found = [_table(table, seeds or table.seeds, size) for table in TABLES]
    with_panels = [one for table, one in zip(TABLES, found, strict=True) if table.panel]
    curves = tuple(run for experiment in with_panels for run in experiment.runs)
    found.append(Experiment("appendix-b", "Appendix B: learning curves of Tables 1 to 6", curves))
    found.append(
        Experiment(
            "activations",
            "Section 6.2: choices of f_a and f_o",
            tuple(
                with_changes(size(task, unit), {"seed": seed})
                for seed in range(seeds or ACTIVATION_SEEDS)
                for task in ACTIVATION_TASKS
                for unit in RDA_LABELS
            ),
        )
    )
    found.append(
        Experiment(
            "lemma-1",
            "Lemma 1: two answers in turn, over longer and longer sequences",
            tuple(
                with_changes(size("alternating", unit), {"length": length, "seed": seed})
                for seed in range(seeds or LEMMA_SEEDS)
                for length in LEMMA_LENGTHS
                for unit in LEMMA_UNITS
            ),
        )
    )
    found += [] if small else [_study(study, seeds) for study in STUDIES]
    return {experiment.name: experiment for experiment in found}


def chosen(
    names: Sequence[str], seeds: int | None = None, small: bool = False, units: str = ""
) -> list[Experiment]:
    """The experiments of these names; "all" is the paper's own, without our studies. Only runs of
    `units`, if some are named, separated by commas."""
    known = experiments(seeds, small)
    of_the_paper = [name for name in known if name not in {study.name for study in STUDIES}]
    wanted = [name for given in names for name in (of_the_paper if given == "all" else [given])]
    found = [look_up("experiment", name, known) for name in dict.fromkeys(wanted)]
    return _only(found, units.split(",")) if units else found


def _only(found: Sequence[Experiment], units: Sequence[str]) -> list[Experiment]:
    kept = {
        look_up("unit", name.strip(), {label: label for label in UNIT_LABELS}) for name in units
    }
    fewer = [
        replace(experiment, runs=tuple(run for run in experiment.runs if run.unit in kept))
        for experiment in found
    ]
    remaining = [experiment for experiment in fewer if experiment.runs]
    if not remaining:
        raise ValueError(f"none of these experiments has a run of {' or '.join(sorted(kept))}")
    return remaining


def runs_by_name(found: Iterable[Experiment]) -> dict[str, RunSettings]:
    """Every run of these experiments once: tables and panels share theirs."""
    return {default_name(run): run for experiment in found for run in experiment.runs}


def _table(table: Table, seeds: int, size: Any) -> Experiment:
    runs = tuple(
        with_changes(size(table.task, unit), {"seed": seed})
        for seed in range(seeds)
        for unit in COMPARED
    )
    return Experiment(table.name, f"Table {table.number}, {table.caption}", runs)


def _study(study: Study, seeds: int | None) -> Experiment:
    runs = tuple(
        variant.settings(unit, seed)
        for seed in study.seeds_of(seeds)
        for variant in study.variants
        for unit in variant.units
    )
    return Experiment(study.name, study.title, runs)
