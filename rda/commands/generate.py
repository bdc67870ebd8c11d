"""rda generate: text that a trained model writes."""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rda.commands.finding import RUN_HELP, load_text_model, tell_whose_model
from rda.commands.parser import Parser, add_options, given_values, make
from rda.options import default_runs
from rda.settings import check_at_least
from rda.wording import visible

SUMMARY = "text that a trained model writes"
DESCRIPTION = """\
Let the model of a run of `rda train text` or `rda train wikipedia` go on writing after a prompt.
Without RUN it is the model that comes with rda. The text appears as it is written; Ctrl-C ends it.
The same seed gives the same text. A terminal shows control characters as pictures; a file or a
pipe gets the text as it is.
"""
EXAMPLES = """\
Examples:
  rda generate --prompt "The city of "
  rda train text RDA-exp-tanh --file corpus.txt --name mine
  rda generate mine --prompt "Once upon a time" --temperature 0.7
  rda generate mine --length 2000 --top-p 0.9 --seed 3
"""


@dataclass(frozen=True)
class GenerateOptions:
    """What to write, and where the run is."""

    prompt: str = ""
    """What the model reads first; its text goes on from there."""
    length: int = 500
    """Characters to write (bytes, where the model reads bytes)."""
    temperature: float = 0.8
    """Below 1 the likely becomes likelier; 1 is as the model was trained; at 0 the likeliest
    character is taken."""
    top_p: float = 1.0
    """Draw from the likeliest characters alone, as many as have this probability together."""
    seed: int = 0
    """The same seed gives the same text."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, ...; auto takes the GPU where there is one."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""

    def __post_init__(self) -> None:
        for name in ("length", "seed"):
            check_at_least(name, getattr(self, name), 0)


def add(parser: Parser, explain: bool) -> None:
    """The run and the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = "rda generate [RUN] [options]"
    parser.add_argument("run", nargs="?", metavar="RUN", help=RUN_HELP)
    add_options(parser, "options", GenerateOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Write the prompt and what follows it."""
    options: GenerateOptions = make(GenerateOptions, given_values(asked, GenerateOptions))
    record, model = load_text_model(asked.run, options.runs_dir, options.device)
    pieces = make(
        model.stream,
        {
            "prompt": options.prompt,
            "length": options.length,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "seed": options.seed,
        },
    )
    tell_whose_model("generate", asked.run, record)
    as_shown = visible if sys.stdout.isatty() else str
    sys.stdout.write(as_shown(options.prompt))
    for piece in pieces:
        sys.stdout.write(as_shown(piece))
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
