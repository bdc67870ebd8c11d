"""rda evaluate: how surprising a text is to a trained model, or how right it is on other data."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rda.commands.finding import RUN_HELP, load_text_model, tell_whose_model, trained_on
from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.commands.scoring import PAGE, score
from rda.commands.training import as_usage_errors
from rda.options import default_runs
from rda.tasks.text import Text, pieces

if TYPE_CHECKING:
    from rich.console import Console

    from rda.training.reading import Reading
    from rda.training.text_model import TextModel

SUMMARY = "how surprising a text is to a trained model, or how right it is on other sequences"
DESCRIPTION = """\
--file: let the model of a run of `rda train text` or `rda train wikipedia` read a text from
beginning to end: the bits that each character costs after all that came before it, their mean, and
a page on which each character has the colour of its surprise. Without RUN it is the model that
comes with rda.

--data: let the model of a run of `rda train --data` answer for other sequences whose answers are
known: the score with its interval, and a page with what was wrong.
"""
EXAMPLES = """\
Examples:
  rda train text RDA-exp-tanh --file corpus.txt --name mine
  rda evaluate mine --file other.txt
  rda evaluate --file other.txt
  rda train --data machines.csv RDA-exp-tanh --name machines
  rda evaluate machines --data later.csv
"""
SHOWN = 20_000
"""Characters on the page; bytes, where the model reads bytes."""


@dataclass(frozen=True)
class EvaluateOptions:
    """Which text or sequences, and where the run is."""

    file: str = ""
    """The text: a file, a folder (all files in it), or a pattern such as 'books/*.txt'."""
    data: str = ""
    """The sequences: a file, a folder or a pattern with the columns of the training data, the
    target among them."""
    page: str = ""
    """The page that is written; by default surprise.html, or evaluation.html of sequences."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, ...; auto takes the GPU where there is one."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def add(parser: Parser, explain: bool) -> None:
    """The run and the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = (
        "rda evaluate [RUN] --file TEXT [options]\n       rda evaluate RUN --data FILE [options]"
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help=RUN_HELP)
    add_options(parser, "options", EvaluateOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Read, say how many bits, write the page."""
    from rich.console import Console

    from rda.files import write_atomically
    from rda.report.surprise import Surprise, render_surprise
    from rda.wording import counted

    options: EvaluateOptions = make(EvaluateOptions, given_values(asked, EvaluateOptions))
    if bool(options.file) == bool(options.data):
        raise UsageError("rda evaluate needs a text, --file other.txt, or sequences, --data FILE")
    if options.data:
        if asked.run is None:
            raise UsageError("rda evaluate --data needs a run of rda train --data")
        where = Path(options.page or PAGE)
        return score(asked.run, options.data, options.runs_dir, options.device, where)
    path = Path(options.page or "surprise.html")
    record, model = load_text_model(asked.run, options.runs_dir, options.device)
    console = Console()
    found = _read(model, options.file, console)
    if not found.count:
        raise UsageError(
            f"{options.file} has fewer than two symbols that the model knows: there is nothing to "
            "evaluate"
        )
    tell_whose_model("evaluate", asked.run, record)
    what = "character" if model.vocabulary.kind == "characters" else "byte"
    headline = (
        f"{found.mean:.4g} bits per {what} over {counted(found.count, what)}: "
        f"{record.settings.unit} would write them in {found.total / 8:,.0f} bytes."
    )
    if found.unknown:
        headline += (
            f" It does not know {counted(found.unknown, what)}, and does not tell them apart."
        )
    if found.left_out:
        headline += (
            f" Left out: {counted(found.left_out, what)} that its training text does not have."
        )
    if _was_trained_on(model, Path(options.file)):
        headline += " The model was trained with this very text: expect more bits of others."
    console.print(headline, markup=False, highlight=False, soft_wrap=True)
    facts = {
        "text": options.file,
        "run": record.name,
        "unit": record.settings.unit,
        "trained on": trained_on(record),
        "steps": f"{record.status.best_step or record.status.step:,}",
    }
    page = render_surprise(
        Surprise(
            title=f"{Path(options.file).name}, as {record.settings.unit} reads it",
            headline=headline,
            facts=facts,
            first=found.shown[0],
            characters=found.shown[1:],
            bits=found.bits,
            rest=counted(found.more, f"more {what}") if found.more else "",
        )
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.encode(errors="replace"))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    console.print(f"page: {path}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _was_trained_on(model: "TextModel", file: Path) -> bool:
    from rda.training.manifest import digest_of

    known = model.facts
    is_as_large = file.is_file() and file.stat().st_size == known.get("bytes")
    return is_as_large and digest_of(file) == known.get("sha256")


def _read(model: "TextModel", file: str, console: "Console") -> "Reading":
    """With a bar, by the size of the files: a character is one byte or a few."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from rda.training.reading import read_text

    paths = Text(file=file).paths()
    size = sum(path.stat().st_size for path in paths)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,} read"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("reading", total=size)
        parts = pieces(paths, model.vocabulary.kind)
        with as_usage_errors():
            found: Reading = make(
                read_text,
                {
                    "model": model,
                    "pieces": parts,
                    "shown": SHOWN,
                    "progress": lambda count: bar.update(task, completed=count),
                },
            )
    return found
