"""The command `rda`: one parser for all commands; errors become one line and an exit code."""

import argparse
import os
import shlex
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType

from rda import EXTRA_PACKAGES, __version__, missing_extra
from rda.commands.parser import Parser, UsageError, wants_help
from rda.names import unknown_name
from rda.tasks import TaskError
from rda.training.torchrun import is_team

DESCRIPTION = """\
Recurrent Discounted Attention (arXiv 1705.08480): train its units on the paper's tasks and on
your own, look at how they learn, and compare them with RWA, LSTM and GRU.
"""
EPILOG = """\
Examples:
  rda train multicopy RDA-exp-tanh --small         the small twin of a task, in a minute
  rda train addition GRU                           the paper's own size
  rda train addition GRU --length 200 --seed 3     another size, another seed
  rda compare copy RDA-sigmoid-id LSTM --small --steps 2000
  rda show addition-GRU-seed0

Every command explains itself: rda train --help, rda train multicopy --help, ...
Exit codes: 0 done, 1 failed, 2 wrong usage or not possible here, 3 stopped at a limit short of the
goal, 130 interrupted (after saving).
"""
COMMANDS = (
    "train", "compare", "demo", "reproduce", "report", "inspect", "generate", "evaluate", "predict",
    "export", "runs", "show", "data", "doctor",
)  # fmt: skip


def build_parser(given: list[str]) -> Parser:
    """The parser of the whole command line; help texts only where they are asked for."""
    root = Parser(prog="rda", description=DESCRIPTION, epilog=EPILOG)
    root.usage = "rda COMMAND ..."
    root.add_argument("--version", action="version", version=f"rda {__version__}")
    root.set_defaults(parser=root, command=None)
    commands = root.add_subparsers(title="commands", dest="command", metavar="COMMAND", prog="rda")
    explain = wants_help(given)
    for name in COMMANDS:
        module = _module(name)
        parser = commands.add_parser(name, help=module.SUMMARY)
        parser.set_defaults(parser=parser)
        if name in given[:1] or not given:
            module.add(parser, explain)
    return root


def _module(name: str) -> ModuleType:
    return import_module(f"rda.commands.{name}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: _tell(str(message))
            return _run(given)
    except SystemExit as exit:  # help was printed, or rich found that nobody reads any more
        if exit.code:
            _stop_printing()
        return 0
    except (UsageError, TaskError) as error:
        print(f"rda: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_PACKAGES:
            raise
        print(f"rda: {missing_extra(error.name)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rda: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _stop_printing()
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"rda: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def _tell(warning: str) -> None:
    """A line, without the place in our source that it came from."""
    print(f"rda: {warning.removeprefix('rda: ')}", file=sys.stderr)


def _run(given: list[str]) -> int:
    if not given or given[0] == "help":
        build_parser(["--help"]).print_help()
        return 0 if given else 2
    if any("\0" in argument for argument in given):
        raise UsageError("an argument contains a NUL character")
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        raise UsageError(unknown_name("command", given[0], COMMANDS))
    from rda.commands.train import with_settings_file

    command = shlex.join(["rda", *given])
    given = _with_task(given)
    given, start = with_settings_file(given)
    asked = build_parser(given).parse(given, argparse.Namespace(start=start))
    if asked.command is None:
        raise UsageError("rda needs a command (rda --help)")
    code: int = _module(asked.command).run(asked, command)
    return code


def _with_task(given: list[str]) -> list[str]:
    """The task comes first: an option in its place would be taken for its name.

    With --data and without a task it is the task of people's own sequences.
    """
    if given[0] not in ("train", "compare") or wants_help(given):
        return given
    if len(given) < 2 or given[1].startswith("-"):
        if any(argument.split("=")[0] == "--data" for argument in given):
            return [given[0], "sequences", *given[1:]]
        from rda.tasks import all_tasks

        name = f"rda {given[0]}"
        raise UsageError(
            f"{name} needs a task: {', '.join(all_tasks())}; or --data FILE ({name} --help)"
        )
    return given


def _stop_printing() -> None:
    """Nobody reads our output any more (`rda runs | head`): send the rest nowhere."""
    with suppress(OSError, ValueError):  # ValueError: not a file, where a test has replaced it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command() -> int:
    """The installed `rda`: as `main`, and able to print any file name."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    code = main()
    if is_team():  # torch's connections may wait for processes that have ended already
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(command())
