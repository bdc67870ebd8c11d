"""The command `rda`: names lead to commands, errors to one line and an exit code."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper

from rda.commands.arguments import UsageError
from rda.names import unknown_name

HELP = """\
usage: rda COMMAND ...

Recurrent Discounted Attention (arXiv 1705.08480): train its units on the paper's tasks,
look at how they learn, and compare them with RWA, LSTM and GRU.

  rda train TASK UNIT [settings]       train one unit on one task; goes on where it stopped
  rda compare TASK UNIT UNIT ...       several units on one task: a table, a picture, a page
  rda demo                             the paper's headline in minutes, on this machine
  rda runs                             what was trained, and how it went
  rda show RUN                         one run: its curve, its settings, how it ended
  rda data list | fetch | check        the data of MNIST and Wikipedia
  rda doctor                           which engine runs here, why, and whether it is right

Examples:
  rda train multicopy RDA-exp-tanh --small         the small twin of a task, in a minute
  rda train addition GRU                           the paper's own size
  rda train addition GRU --length 200 --seed 3     another size, another seed
  rda compare copy RDA-sigmoid-id LSTM --small --steps 2000
  rda show addition-GRU-seed0

Every command explains itself: rda train --help, rda train multicopy --help, ...
Exit codes: 0 done, 1 failed, 2 cannot be done as asked, 3 stopped at a limit short of the
goal, 130 interrupted (after saving).
"""

COMMANDS = {
    "train": "rda.commands.train",
    "compare": "rda.commands.compare",
    "demo": "rda.commands.demo",
    "runs": "rda.commands.runs",
    "show": "rda.commands.show",
    "data": "rda.commands.data",
    "doctor": "rda.commands.doctor",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if given else 2
    if given[0] == "--version":
        import rda

        print(f"rda {rda.__version__}")
        return 0
    name, *rest = given
    try:
        if any("\0" in argument for argument in rest):
            raise UsageError("an argument holds a NUL character, and no name or number does")
        if name not in COMMANDS:
            raise UsageError(unknown_name("command", name, COMMANDS))
        run: Callable[[list[str]], int] = import_module(COMMANDS[name]).run
        return run(rest)
    except SystemExit as exit:  # a command has printed its help, or rich has lost its reader
        if exit.code:
            _stop_printing()
        return 0
    except UsageError as error:
        print(f"rda: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rda: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _stop_printing()
        return 0
    except OSError as error:
        print(f"rda: {error.strerror or error}", file=sys.stderr)
        return 1


def _stop_printing() -> None:
    """Whoever read our output has gone (`rda runs | head`); nothing is left to say it to."""
    with suppress(OSError, ValueError):  # ValueError: not a file, where a test has replaced it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command() -> int:
    """The installed `rda`: as `main`, and able to print any file name."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return main()


if __name__ == "__main__":
    sys.exit(command())
