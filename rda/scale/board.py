"""All runs in the terminal: one live table, and a line for each run that ends."""

import time
import tomllib
from collections.abc import Sequence
from functools import cache

from rich.table import Table

from rda.experiments.watching import SECONDS_BETWEEN_LINES, LiveBoard
from rda.scale.fleet import Followed
from rda.training.status import INTERRUPTED, RUNNING
from rda.wording import clock_time

SECONDS_WITHOUT_NEWS = 20.0
"""The status is written every five seconds; a long evaluation may hold it up."""
ROWS_LEFT = 6
"""Lines of the terminal that the table leaves free."""


class Board(LiveBoard):
    """Shows every run that is trained or waits: the same whether it is near or far."""

    def looked(self, runs: Sequence[Followed]) -> None:
        """Draw the table, or print a line where that is due."""
        now = time.monotonic()
        if self._console.is_terminal:
            self._show(self._title(runs), self._table(runs, now))
        elif now - self._told_at >= SECONDS_BETWEEN_LINES:
            self._told_at = now
            working = [run for run in runs if run.outcome is None and run.news_at]
            steps = ", ".join(f"{run.name} {run.status.step:,}" for run in working if run.status)
            self.say(f"{self._title(runs)}: {steps or 'none has begun'}")

    def ended(self, run: Followed) -> None:
        """Print how a run has ended."""
        outcome, status = run.outcome, run.status
        assert outcome is not None
        for note in outcome.notes:
            self.say(f"{run.name}: {note}")
        if outcome.error:
            self.failed += 1
            self.say(f"{run.name}: {outcome.error}")
        elif status is None and outcome.node:
            self.failed += 1
            self.say(
                f"{run.name}: trained on {outcome.node}, where {run.assignment.runs_dir} is not "
                "the folder that it is here: name one that all share (--runs-dir), or use --store"
            )
        elif status is None:
            self.say(f"{run.name}: not begun")
        else:
            self.failed += status.state == "failed"
            state = INTERRUPTED if status.state == RUNNING else status.state
            rate = f", {status.step / status.seconds:.3g} steps/s" if status.seconds else ""
            where = f" on {outcome.node}" if outcome.node else ""
            reason = f", {status.reason}" if status.reason else ""
            self.say(f"{run.name}: {state}{reason} ({status.step} steps{rate}){where}")

    def summary(self, runs: Sequence[Followed]) -> str:
        """How many runs have ended."""
        failed = f", {self.failed} failed" if self.failed else ""
        spent = clock_time(time.monotonic() - self._started)
        return f"{_ended(runs)} of {len(runs)} runs have ended in {spent}{failed}."

    def _title(self, runs: Sequence[Followed]) -> str:
        spent = time.monotonic() - self._started
        done = sum(map(_share_done, runs)) / len(runs)
        left = f", at most about {clock_time(spent * (1 - done) / done)} left" if done else ""
        return f"{_ended(runs)} of {len(runs)} runs ended after {clock_time(spent)}{left}"

    def _table(self, runs: Sequence[Followed], now: float) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("run", "state", "step", "steps/s"):
            table.add_column(name, justify="left" if name in ("run", "state") else "right")
        shown = sorted(
            (run for run in runs if run.outcome is None), key=lambda run: not run.news_at
        )
        most = max(self._console.height - ROWS_LEFT, 1)
        for run in shown[:most]:
            step = rate = ""
            if run.status is not None:
                step = f"{run.status.step:,} of {_most_steps(run.assignment.settings):,}"
                rate = f"{run.status.step / run.status.seconds:.3g}" if run.status.seconds else ""
            table.add_row(run.name, _state(run, now), step, rate)
        if len(shown) > most:
            table.add_row(f"and {len(shown) - most} more")
        return table


def _state(run: Followed, now: float) -> str:
    if not run.news_at:
        return "waiting"
    silent = now - run.news_at
    return RUNNING if silent < SECONDS_WITHOUT_NEWS else f"no news for {clock_time(silent)}"


def _share_done(run: Followed) -> float:
    """Of its steps; a run that comes to its goal is done sooner."""
    if run.outcome is not None:
        return 1.0
    if run.status is None or not run.news_at:
        return 0.0
    return run.status.step / _most_steps(run.assignment.settings)


@cache
def _most_steps(settings: str) -> int:
    return int(tomllib.loads(settings)["limits"]["steps"])


def _ended(runs: Sequence[Followed]) -> int:
    return sum(
        run.outcome is not None and run.status is not None and run.status.ended for run in runs
    )
