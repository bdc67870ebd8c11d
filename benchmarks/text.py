"""Training and writing text at the size of the paper's language model, beside cuDNN.

    python benchmarks/text.py                              on a GPU, in bfloat16
    python benchmarks/text.py --precision bfloat16 tf32    in both
    python benchmarks/text.py --small                      a made text, small sizes, any machine
    python benchmarks/text.py --record                     also write results/text.json
    python benchmarks/text.py --profile RDA-exp-tanh       what one training step consists of

All units take turns in one process, each in the trainer's own steps on the Wikipedia task; the
figures are medians with quartiles. Texts are written with random weights: speed does not depend on
them. --record writes each part as soon as it is measured; table.py makes README.md of it.
"""

import argparse
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from machine import machine
from measuring import Contestant, Progress, one_line, synchronise, take_turns
from text_table import LEGEND, render_generation, render_training
from torch.profiler import ProfilerActivity

from rda.data.store import DataError, load
from rda.files import write_atomically
from rda.labels import COMPARED
from rda.tasks.streams import Streams
from rda.tasks.vocabulary import Vocabulary
from rda.training.building import build_stepper
from rda.training.precision import matmul_precision
from rda.training.settings import RunSettings, full_settings, small_settings, with_changes
from rda.training.stepper import WARM_UP, Stepper
from rda.training.text_model import TextModel

RESULTS = Path(__file__).parent / "results" / "text.json"
TASK = "wikipedia"
BASELINES = ("LSTM", "GRU")
SUBJECTS = {
    **{f"nn.{unit}": (unit, "torch") for unit in BASELINES},
    **{f"rda's {unit}" if unit in BASELINES else unit: (unit, "auto") for unit in COMPARED},
}
"""The name in the table -> the unit and its engine."""
UNTIMED_STEPS = WARM_UP + 2
"""On a GPU: the first one carries no state yet, and the last one records a CUDA graph."""
PROFILED_STEPS, SHOWN = 5, 30
WRITERS = ("RDA-exp-tanh", "LSTM")

Files = Mapping[str, bytes]
Run = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """The sizes and counts of a whole measurement."""

    settings: Callable[[str, str], RunSettings]
    steps: int
    """Training steps in a turn, and batches in a turn of loading."""
    units_on_device: int
    units_on_cpu: int
    characters: int
    """Length of a text that is written."""
    rounds: int = 11


WHOLE = Plan(full_settings, steps=10, units_on_device=1800, units_on_cpu=256, characters=500)
SMALL = Plan(small_settings, steps=2, units_on_device=32, units_on_cpu=16, characters=50)


def main() -> None:
    asked, device, files = prepare()
    plan = replace(SMALL if asked.small else WHOLE, rounds=asked.rounds)
    if asked.profile:
        print(profile(plan, asked.profile, asked.precision[0], files, device))
        return
    results: dict[str, Any] = {"machine": machine(device), "training": [], "generation": []}
    source = plan.settings(TASK, COMPARED[0]).task.open(torch.device("cpu"), files)
    assert isinstance(source, Streams)
    print(LEGEND)
    for precision in asked.precision:
        part = measure_training(plan, precision, source, files, device)
        results["training"].append(part)
        tell(render_training(part), results, asked.record)
    for units, where in (plan.units_on_device, device), (plan.units_on_cpu, torch.device("cpu")):
        part = measure_generation(plan, units, source.vocabulary, where)
        results["generation"].append(part)
        tell(render_generation(part), results, asked.record)


def prepare() -> tuple[argparse.Namespace, torch.device, Files]:
    """The checked arguments, the device, and the text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="the GPU where there is one")
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=("float32", "tf32", "bfloat16"),
        help="of training: bfloat16 on a GPU, float32 on a CPU",
    )
    parser.add_argument("--small", action="store_true", help="small sizes and a made text")
    parser.add_argument("--rounds", type=int, default=WHOLE.rounds, help="turns a unit gets")
    parser.add_argument("--data-dir", type=Path, help="folder with enwik8 ($RDA_DATA)")
    parser.add_argument("--record", action="store_true", help="write results/text.json")
    parser.add_argument("--profile", metavar="UNIT", help="only list what a step consists of")
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error("--rounds should be 2 or more: a spread needs that")
    if asked.small and asked.record:
        parser.error("--small is for looking: record a whole run")
    device = torch.device(asked.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    if device.type == "cpu" and not asked.small:
        parser.error("the whole size is for a GPU: --small runs on a CPU")
    asked.precision = asked.precision or ["float32" if device.type == "cpu" else "bfloat16"]
    try:
        files = made_text() if asked.small else load("enwik8", asked.data_dir, fetch_missing=True)
    except DataError as error:
        parser.error(str(error))
    return asked, device, files


def made_text() -> Files:
    """A text of random letters in the place of enwik8."""
    letters = random.Random(0).choices(b"\n abcdefghijklmnopqrstuvwxyz", k=100_000)
    return {"enwik8": bytes(letters)}


def tell(text: str, results: dict[str, Any], record: bool) -> None:
    """Print what was just measured, and write all that is measured by now."""
    print(f"\n{text}", flush=True)
    if record:
        write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())


def measure_training(
    plan: Plan, precision: str, source: Streams, files: Files, device: torch.device
) -> dict[str, Any]:
    """Milliseconds of a step and of loading a batch for every unit, in turns."""
    entries: list[dict[str, Any]] = []
    racing: list[tuple[dict[str, Any], dict[str, Contestant]]] = []
    progress = Progress(len(SUBJECTS) + plan.rounds)
    for name, (unit, engine) in SUBJECTS.items():
        entry: dict[str, Any] = {"name": name}
        entries.append(entry)
        try:
            settings = with_changes(plan.settings(TASK, unit), {"precision": precision})
            stepper = build_stepper(settings, device, engine, files)
            with matmul_precision(precision):
                entry["engine"] = stepper.engine()
            racing.append((entry, contestants(stepper, device, plan.steps)))
        except Exception as error:
            entry["error"] = one_line(error)
        progress.step(f"{precision}: warming up, {name}")
    for _ in range(plan.rounds):
        take_turns([each for _, pair in racing for each in pair.values()], 1)
        progress.step(f"{precision}: taking turns")
    for entry, pair in racing:
        entry |= {kind: contestant.result() for kind, contestant in pair.items()}
    settings = plan.settings(TASK, COMPARED[0])
    return {
        "task": TASK,
        "precision": precision,
        "units": settings.recipe.hidden_size,
        "embedding": settings.task.embedding_size,
        "batch": settings.recipe.batch_size,
        "segment": source.segment,
        "training_characters": len(source.parts["train"]),
        "subjects": entries,
    }


def contestants(stepper: Stepper, device: torch.device, steps: int) -> dict[str, Contestant]:
    """A whole step, warmed up until it is as quick as it gets, and the loading of its batch."""
    step = whole_steps(stepper)
    step(UNTIMED_STEPS if device.type == "cuda" else 1)
    runs = {"step": step, "loading": batches_alone(stepper)}
    return {kind: Contestant(run, device, steps) for kind, run in runs.items()}


def whole_steps(stepper: Stepper) -> Run:
    """A function of a count, which trains for that many steps."""

    def run(count: int) -> None:
        with matmul_precision(stepper.recipe.precision):
            for _ in range(count):
                stepper.step()
                if stepper.full:
                    stepper.fetch()

    return run


def batches_alone(stepper: Stepper) -> Run:
    """A function of a count, which loads that many batches."""

    def run(count: int) -> None:
        for _ in range(count):
            stepper.source.batch(stepper.generator, stepper.recipe.batch_size)

    return run


def profile(plan: Plan, unit: str, precision: str, files: Files, device: torch.device) -> str:
    """The kernels of a training step by their time, or on a CPU the operations of torch."""
    settings = with_changes(plan.settings(TASK, unit), {"precision": precision})
    stepper = build_stepper(settings, device, "auto", files)
    step = whole_steps(stepper)
    step(UNTIMED_STEPS)
    on_gpu = device.type == "cuda"
    kinds = [ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds) as seen:
        step(PROFILED_STEPS)
        synchronise(device)
    rows = []
    for event in seen.key_averages():
        taken = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        rows.append((taken / PROFILED_STEPS, event.count / PROFILED_STEPS, event.key))
    rows.sort(reverse=True)
    lines = [
        f"{unit} in {precision}: microseconds a step, {sum(row[0] for row in rows):.0f} in all"
    ]
    lines += [f"{taken:10.1f}  {count:6.1f} x  {name[:100]}" for taken, count, name in rows[:SHOWN]]
    return "\n".join(lines)


def measure_generation(
    plan: Plan, units: int, vocabulary: Vocabulary, device: torch.device
) -> dict[str, Any]:
    """Milliseconds that each unit takes for a text, in turns."""
    embedding = plan.settings(TASK, COMPARED[0]).task.embedding_size
    progress = Progress(plan.rounds)
    writers = {}
    for unit in WRITERS:
        model = TextModel(unit, units, vocabulary=vocabulary, embedding_size=embedding)
        run = texts(model.to(device).eval(), plan.characters)
        writers[unit] = Contestant(run, device, steps=1)
    for _ in range(plan.rounds):
        take_turns(writers.values(), 1)
        progress.step(f"writing, {units} units on {device.type}")
    return {
        "device": device.type,
        "units": units,
        "characters": plan.characters,
        "times": {unit: writer.result() for unit, writer in writers.items()},
    }


def texts(model: TextModel, characters: int) -> Run:
    """A function of a count, which writes that many texts."""

    def run(count: int) -> None:
        for seed in range(count):
            model.generate(length=characters, seed=seed)

    return run


if __name__ == "__main__":
    main()
