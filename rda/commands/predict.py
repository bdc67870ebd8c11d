"""rda predict: what a trained model says about other sequences."""

import argparse
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rda.commands.finding import find_run
from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.commands.table import write_table
from rda.commands.training import as_usage_errors
from rda.files import replacing
from rda.options import default_runs
from rda.wording import printable, visible

if TYPE_CHECKING:
    from rda.training.own_model import OwnModel

SUMMARY = "what a model of your own sequences says about others, as a table"
DESCRIPTION = """\
Let the model of a run of `rda train --data` read other sequences, and write what it predicts as a
table: a row for each sequence in the order of the data, or for each step, with the label and how
probable each class is, or with the number. A forecast has a row for each of the next steps, with
the interval that held nine of ten values of the validation part.

A name or label that a spreadsheet would take for a formula, because it begins with = + - or @ and
is not a number, has an apostrophe before it. On standard output control characters have pictures in
their place; in a file (-o) they are as in the data.
"""
EXAMPLES = """\
Examples:
  rda train --data machines.csv RDA-exp-tanh --name mine
  rda predict mine --data new.csv -o predicted.csv
  rda predict mine --data new.parquet | head
"""


@dataclass(frozen=True)
class PredictOptions:
    """Which sequences, and where the run is."""

    data: str = ""
    """The sequences: a file, a folder or a pattern with the columns of the training data."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, ...; auto takes the GPU where there is one."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def add(parser: Parser, explain: bool) -> None:
    """The run and the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = "rda predict RUN --data FILE [-o FILE] [options]"
    parser.add_argument("run", metavar="RUN", help="a name, or a folder")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", type=Path, help="the table that is written (default: "
        "standard output)",
    )  # fmt: skip
    add_options(parser, "options", PredictOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Read, predict, write."""
    options: PredictOptions = make(PredictOptions, given_values(asked, PredictOptions))
    if not options.data:
        raise UsageError("rda predict needs sequences: --data FILE")
    model = load_own_model(asked.run, options.runs_dir, options.device)
    with as_usage_errors():
        rows = _rows(model, options.data)
        if asked.output is None:
            write_table(([visible(str(cell)) for cell in row] for row in rows), sys.stdout)
        else:
            _write(asked.output, rows)
    return 0


def load_own_model(name: str, runs: Path, device: str) -> "OwnModel":
    """The model of a run of people's own sequences."""
    from rda.training.loading import load
    from rda.training.own_model import OwnModel
    from rda.training.resources import find_device

    with as_usage_errors():
        record = find_run(name, runs)
        model = load(record.folder, device=find_device(device))
    if not isinstance(model, OwnModel):
        raise UsageError(
            f"run {record.name} was trained on {record.settings.task.name}: give a run of "
            "rda train --data"
        )
    return model


def _rows(model: "OwnModel", data: str) -> Iterator[list[Any]]:
    """The table, a row at a time."""
    answers = iter(model.answers(data))
    first = list(islice(answers, 1))  # raises for wrong data before anything is written
    told, margins = model.understanding, None
    if told.problem == "forecast":
        margins = _margins(model)
        bounds = [f"{name} {end}" for name in told.target for end in ("low", "high")]
        yield ["sequence", "ahead", *told.target, *(bounds if margins is not None else [])]
    else:
        steps = ["step"] if told.every_step else []
        yield ["sequence", *steps, told.target[0], *(f"p({word})" for word in told.classes)]
    for some, raw in chain(first, answers):
        said = model.meaning(raw, some)
        if told.problem == "forecast":
            for name, end in zip(some.ids, some.lengths.cumsum() - 1, strict=True):
                for ahead, values in enumerate(said[end], 1):
                    ends: Any = []
                    if margins is not None:
                        margin = margins[ahead - 1]
                        ends = [
                            end for pair in zip(values - margin, values + margin, strict=True)
                            for end in pair
                        ]  # fmt: skip
                    yield [name, ahead, *(_shown(value) for value in (*values, *ends))]
            continue
        chances: Any = model.probabilities(raw) if told.classes else [[]] * len(said)
        where: list[list[Any]] = [[name] for name in some.ids]
        if told.every_step:
            where = [
                [name, step]
                for name, length in zip(some.ids, some.lengths, strict=True)
                for step in range(length)
            ]
        for place, answer, row in zip(where, said, chances, strict=True):
            yield [*place, _shown(answer), *(f"{chance:.6f}" for chance in row)]


def _margins(model: "OwnModel") -> Any:
    """How far to either side of a forecast nine of ten values lie; None where that is not known."""
    from rda.training.intervals import read_intervals
    from rda.training.status import RecordError

    if model.record is None:
        return None
    try:
        found = read_intervals(model.record)
    except RecordError as error:
        _note(f"{error}: no interval is written")
        return None
    told = model.understanding
    if found is None:
        return None
    if found.margins.shape != (told.horizon, len(told.target)):
        _note(f"the intervals of run {model.record.name} are of other columns: none is written")
        return None
    if not found.sealed:
        _note(
            f"the intervals of run {model.record.name} are unsealed, as earlier versions left "
            "them: nothing shows that they are of its weights"
        )
    return found.margins


def _note(line: str) -> None:
    print(f"rda: {printable(line)}", file=sys.stderr)


def _shown(answer: Any) -> str:
    return answer if isinstance(answer, str) else f"{answer:.9g}"


def _write(path: Path, rows: Iterator[list[Any]]) -> None:
    """Row by row into a file of another name, which takes its place when it is whole."""
    try:
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            write_table(rows, text)
            text.detach()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
