"""The table of all runs on a cluster."""

import io
import time

from rich.console import Console

from rda.scale.assignment import Assignment, Outcome
from rda.scale.board import Board
from rda.scale.fleet import Followed
from rda.training.status import FINISHED, RUNNING, Status

LIMITS = "[limits]\nsteps = 1000\n"


def followed(name, step=0, state=RUNNING, began=True):
    run = Followed(Assignment(name, LIMITS, "runs"), task=None)
    if began:
        run.status = Status(state=state, reason="", step=step, seconds=10.0)
        run.news_at = time.monotonic()
    if state == FINISHED:
        run.outcome = Outcome(name, "node")
    return run


def test_the_table_says_what_runs_what_waits_and_how_long_it_takes_at_most():
    shown = io.StringIO()
    board = Board(Console(file=shown, force_terminal=True, width=100, height=12))
    board._started -= 60
    runs = [followed("one", 300, FINISHED), followed("two", 500)]
    runs += [followed(name, began=False) for name in ("three", "four")]
    with board:
        board.looked(runs)
    table = shown.getvalue()
    # One run and a half of four took a minute.
    assert "1 of 4 runs ended after 0:01:00, at most about 0:01:40 left" in table
    assert "500 of 1,000" in table
    assert all(f"{name:5}  waiting" in table for name in ("three", "four"))


def test_before_the_first_step_nobody_knows_how_long_it_takes():
    board = Board(Console(file=io.StringIO()))
    assert board._title([followed("one", began=False)]) == "0 of 1 runs ended after 0:00:00"
