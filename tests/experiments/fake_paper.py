"""Records of the paper's experiments with invented numbers, for tests of what reads them."""

import json
import math
import random
from dataclasses import asdict

from rda.analysis.inspection import Inspection, save
from rda.experiments.catalogue import experiments, runs_by_name
from rda.experiments.paper import find_table
from rda.training.record import ENVIRONMENT, MEAN, METRICS, SETTINGS, STATUS, TIMING
from rda.training.settings_file import to_toml
from rda.training.status import FINISHED, STOPPED, Status

POINTS = 60
START = {
    "torch": "2.11.0", "gpu": "Invented GPU", "processor": "Invented CPU", "device": "cuda",
    "git": {"commit": "0123456789", "dirty": False}, "command": "rda train",
}  # fmt: skip


def write_paper(folder, names=None, value_of=lambda settings, published: published):
    """A record for each run (or those of some experiments), with the results of `value_of`.

    It is given a run's settings and the published number, None where there is none, and returns
    the steps to the goal, infinite for none, or the accuracy or bits on the test data.
    """
    known = experiments()
    chosen = known.values() if names is None else [known[name] for name in names]
    for name, settings in runs_by_name(chosen).items():
        table = find_table(settings.task.name)
        published = None
        if table is not None and settings.unit in table.published:
            number = table.published[settings.unit]
            published = math.inf if number.beyond else number.value
        write_record(folder / name, settings, value_of(settings, published))
    return folder


def write_record(folder, settings, value):
    folder.mkdir(parents=True)
    # Plain writes: hundreds of records that are flushed to the disk would take long.
    (folder / SETTINGS).write_text(to_toml(settings))
    (folder / ENVIRONMENT).write_text(json.dumps([START]))
    limit = settings.limits.steps
    task = settings.task
    if task.goal is None:
        status = Status(
            state=FINISHED, step=limit, seconds=9.0, test={f"test_{task.metric}": value},
            best={f"validation_{task.metric}": value}, best_step=limit, thinned=True,
        )  # fmt: skip
    elif value is None or math.isinf(value):
        status = Status(state=STOPPED, step=limit, seconds=9.0, thinned=True)
    else:
        step = min(int(value), limit)
        status = Status(state=FINISHED, step=step, seconds=5.0, goal_step=step, thinned=True)
    (folder / STATUS).write_text(json.dumps(asdict(status)))
    metrics = list(rows(settings, status))
    (folder / METRICS).write_text("".join(json.dumps(row) + "\n" for row in metrics))
    (folder / TIMING).write_text(json.dumps({"step": status.step, "seconds": 5.0}) + "\n")
    told = task.name in ("multicopy", "alternating") and settings.unit not in ("LSTM", "GRU")
    if told and settings.recipe.seed == 0:
        save(folder, invented_inspection(settings))


def rows(settings, status):
    numbers = random.Random(status.step)
    metric = settings.task.metric
    for point in range(1, POINTS + 1):
        step = max(1, status.step * point // POINTS)
        loss = math.exp(-4 * point / POINTS) * numbers.uniform(0.9, 1.1)
        row = {"step": step, "loss": loss, f"{MEAN}loss": loss}
        score = 1 - loss / 2
        if settings.task.lower_is_better:
            score = loss + status.best.get(f"validation_{metric}", 0.0)
        if metric != "loss":
            row |= {metric: score, f"{MEAN}{metric}": score}
        yield row
        if settings.task.goal is None:
            yield {"step": step, "validation_loss": loss, f"validation_{metric}": score}


def invented_inspection(settings):
    steps = 40
    wave = [0.5 + 0.4 * math.sin(step) for step in range(steps)]
    slope = 0.01 * getattr(settings.task, "length", 0) if settings.unit == "RWA" else 0.001
    return Inspection(
        task=settings.task.name, unit=settings.unit, symbols=[str(i % 7) for i in range(steps)],
        targets=[0] * steps, answers=[0] * steps, discount=wave, new_share=wave[::-1],
        highest_attention=[slope * step for step in range(steps)], highest_weight=wave,
        discount_of_units=[wave] * 8, new_share_of_units=[wave[::-1]] * 8,
    )  # fmt: skip
