"""The training loop, for full BPTT and for truncated BPTT with a carried state."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rda.training.checkpoint import Checkpoint
from rda.training.environment import describe_environment
from rda.training.fitting import misfits
from rda.training.goals import GoalTracker
from rda.training.interrupt import Interrupt
from rda.training.listening import Listener
from rda.training.manifest import MANIFEST
from rda.training.precision import matmul_precision
from rda.training.record import ENVIRONMENT, MODEL, STATUS
from rda.training.run import Run
from rda.training.status import (
    ENDED,
    FAILED,
    FINISHED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    RecordError,
    Status,
)
from rda.training.stepper import Row, Stepper, without_prefix

if TYPE_CHECKING:
    from rda.training.unrecorded import Unrecorded

SECONDS_HELD = 0.5
"""The values of steps may wait on a GPU for this long. Longer, and progress would stand still and
an interrupt would not be noticed."""
SECONDS_BETWEEN_STATUS = 5.0
"""The status is written this often, for people who look at a run while it runs."""
MOST_SKIPPED, AMONG = 100, 200
"""So many skipped steps among so many end a run: its weights are spoilt, and it would learn no
more, even where every other step is finite."""


class NotFiniteError(RuntimeError):
    """A loss, a gradient or a weight is infinite or NaN; the message names it and the step."""


def run_training(
    run: Run | Unrecorded,
    stepper: Stepper,
    listener: Listener,
    *,
    checkpoint_seconds: float = 60.0,
    command: str | None = None,
) -> Status:
    """Train from where the run stands to its goal or a limit, and record everything."""
    with matmul_precision(run.settings.recipe.precision), Interrupt() as interrupt:
        loop = _Loop(run, stepper, listener, interrupt, checkpoint_seconds)
        loop.prepare()
        if loop.is_over():
            return run.status
        loop.begin(command)
        try:
            return loop.work()
        except (NotFiniteError, OSError) as error:
            return loop.fail(_one_line(error))
        except Exception as error:
            loop.fail(_one_line(error))
            raise


class _Loop:
    def __init__(
        self,
        run: Run | Unrecorded,
        stepper: Stepper,
        listener: Listener,
        interrupt: Interrupt,
        checkpoint_seconds: float,
    ) -> None:
        self.run = run
        self.stepper = stepper
        self.limits = run.settings.limits
        self.listener = listener
        self.interrupt = interrupt
        self.checkpoint_seconds = checkpoint_seconds
        self.goals = GoalTracker(run.settings.task.goal)
        self.saved_at = self.started_at = self.told_at = time.monotonic()
        self.step = self.saved_step = 0
        self.seconds = self.timed_seconds = 0.0
        self.skipped_steps = 0
        self.skipped_lately: deque[bool] = deque(maxlen=AMONG)
        self.evaluated_step = 0
        self.best_step: int | None = None
        self.best: dict[str, float] = {}
        self.best_weights: dict[str, Tensor] = {}
        self.test: dict[str, float] = {}

    def prepare(self) -> None:
        """Go back to the last checkpoint; without one, stay at the start."""
        found, rows, notes = self.run.resume()
        for line in notes:
            self.listener.say(line)
        if found is not None:
            device = self.stepper.generator.device.type
            begun_on = found.values.get("device")
            if not isinstance(begun_on, str):
                raise RecordError(
                    f"the checkpoint of step {found.step} does not say on what device the run was "
                    "begun; --force starts over"
                )
            if begun_on != device:
                raise RecordError(
                    f"the run was begun on {begun_on} and cannot continue on {device}, which has "
                    f"another random generator: use --device {begun_on}, or another --name"
                )
            self._restore_or_refuse(found, rows)

    def is_over(self) -> bool:
        """Whether the run is finished and its record whole: then nothing is written."""
        damaged = self.run.damaged()
        for name in damaged:
            if name in (MODEL, STATUS, MANIFEST):
                self.listener.say(f"{name} was missing or changed: made again from the checkpoint")
            elif name == ENVIRONMENT:
                raise RecordError(f"{name} is not as it was written; --force starts over")
        if damaged:
            return False
        status = self.run.status
        over = self._reason_to_stop() or ("", "")
        return status.state == FINISHED == over[0] and status.step == self.step

    def begin(self, command: str | None) -> None:
        """Record that training starts, and where."""
        device = self.stepper.generator.device
        start = {"from_step": self.step, "engine": self.stepper.engine()}
        self.run.begin(
            lambda: {**start, **describe_environment(device, command)}, self._status(RUNNING, "")
        )
        self.listener.began(self.step)

    def work(self) -> Status:
        """Steps, evaluations and checkpoints until there is a reason to stop."""
        while True:
            if self._evaluation_is_due():
                self._evaluate()
            verdict = self._reason_to_stop()
            if verdict is not None:
                return self.end(*verdict)
            # Saved after the evaluation, so that there is only one state of a step to save.
            now = time.monotonic()
            if now - self.saved_at >= self.checkpoint_seconds and self.step > self.saved_step:
                self._save()
            if now - self.told_at >= SECONDS_BETWEEN_STATUS:
                self.run.write_status(self._status(RUNNING, ""))
                self.told_at = now
            self._train_for_a_while()

    def _train_for_a_while(self) -> None:
        """Take steps until their values must be looked at; on a CPU that is one step."""
        start = time.perf_counter()
        stepper = self.stepper
        first = self.step + 1
        while True:
            stepper.step()
            self.step += 1
            waited = time.perf_counter() - start
            if stepper.full or self.step >= self.limits.steps or self._evaluation_is_due():
                break
            if waited > SECONDS_HELD or self.interrupt.requested:
                break
        rows = stepper.fetch()
        self.seconds += time.perf_counter() - start
        self._record(first, rows)

    def _record(self, first: int, rows: list[Row]) -> None:
        for step, row in enumerate(rows, first):
            skipped = row.culprit is not None and self.stepper.recipe.not_finite == "skip"
            line = {**row, "skipped": 1} if skipped else row
            self._append(step, line)
            if row.culprit is not None and not skipped:
                self._fail_at(step, row.culprit)
            self._count(step, line)
            if sum(self.skipped_lately) >= MOST_SKIPPED:
                many = f"skipped {MOST_SKIPPED} times in {len(self.skipped_lately)} steps,"
                self._fail_at(step, f"{row.culprit}, {many}")
        if self.seconds - self.timed_seconds >= 1.0 or self.timed_seconds == 0.0:
            self.timed_seconds = self.seconds
            self.run.append_timing(self.step, self.seconds)
        self.listener.stepped(self.step, rows[-1], self.seconds)

    def _fail_at(self, step: int, culprit: str) -> None:
        self.step = step
        weight = self.stepper.not_finite_weight()
        named = culprit if weight is None else f"weight {weight}"
        raise NotFiniteError(f"{named} is not finite at step {step}")

    def _count(self, step: int, row: Mapping[str, float]) -> None:
        """Look at one step's row for the goal, and for a skipped step."""
        skipped = "skipped" in row
        self.skipped_steps += skipped
        self.skipped_lately.append(skipped)
        self.goals.update(step, row)

    def _append(self, step: int, row: Mapping[str, float]) -> None:
        line = {"step": step, **row}
        self.run.append(line)
        self.listener.recorded(step, line)

    def _evaluation_is_due(self) -> bool:
        every = self.stepper.recipe.evaluate_every
        return every > 0 and self.step % every == 0 and self.step > self.evaluated_step

    def _was_never_evaluated(self) -> bool:
        """Whether training was shorter than the interval between two evaluations."""
        return self.stepper.recipe.evaluate_every > 0 and self.step > self.evaluated_step == 0

    def _evaluate(self) -> None:
        """Evaluate the weights, unless an interrupt is requested on the way."""
        values = self.stepper.evaluate("validation", lambda: self.interrupt.requested is not None)
        if values is None:
            return
        self._append(self.step, values)
        text = self.stepper.sample()
        if text is not None:
            self.run.keep_sample(self.step, text, before=self.evaluated_step)
            self.listener.sampled(self.step, text)
        self.evaluated_step = self.step
        if self._is_best(values):
            self.best_step, self.best = self.step, values
            state = self.stepper.model.state_dict()
            self.best_weights = {name: tensor.clone() for name, tensor in state.items()}

    def _is_best(self, values: Mapping[str, float]) -> bool:
        task = self.run.settings.task
        column = f"validation_{task.chosen_by}"
        before = self.best.get(column)
        if before is None or math.isnan(before):
            return True
        return values[column] < before if task.chosen_by != "accuracy" else values[column] > before

    def _reason_to_stop(self) -> tuple[str, str] | None:
        """The state and the reason with which to stop now, if there is one."""
        limits, goal = self.limits, self.goals.goal
        reached = self.goals.reached(limits.stop_at)
        if self.interrupt.requested and self._evaluation_is_due():
            return self._interrupted()
        if reached is not None:
            return FINISHED, f"{goal} at step {reached}"
        if self.step >= limits.steps:
            if goal is None or limits.stop_at == "never":
                return FINISHED, f"all {self.step} steps done"
            return STOPPED, f"{self.step} steps without {goal}"
        if self.interrupt.requested:
            return self._interrupted()
        if limits.minutes and time.monotonic() - self.started_at >= 60 * limits.minutes:
            return STOPPED, f"{limits.minutes:g} minutes were over at step {self.step}"
        return None

    def _interrupted(self) -> tuple[str, str]:
        return INTERRUPTED, f"{self.interrupt.requested} at step {self.step}"

    def end(self, state: str, reason: str) -> Status:
        """Save, validate a run that never was, test, and record how the run ended."""
        if self.step > self.saved_step:
            self.run.append_timing(self.step, self.seconds)
        self._save()
        if state in ENDED and self._was_never_evaluated():
            # Not in the checkpoint: a run that goes on has only the evaluations of its interval.
            self._evaluate()
            if self._was_never_evaluated():
                state, reason = self._interrupted()
        if state in ENDED and self.best_weights:
            self._test()
        values = {
            "step": self.best_step or self.step,
            "unit": self.run.settings.unit,
        }
        weights = self.best_weights or self.stepper.model.state_dict()
        return self.run.end(self._status(state, reason), weights, values)

    def _test(self) -> None:
        """Test the best weights, then put back those of the last step."""
        state = self.stepper.model.state_dict()
        last = {name: tensor.clone() for name, tensor in state.items()}
        self.stepper.use(self.best_weights)
        self.test = self.stepper.evaluate("test") or {}
        self.stepper.use(last)

    def fail(self, reason: str) -> Status:
        """Record that the run failed; what was saved before stays."""
        status = self._status(FAILED, reason)
        try:
            self.run.write_status(status)
        except OSError as error:  # the disk may be what failed
            self.listener.say(f"the status could not be written: {error.strerror}")
        return status

    def _status(self, state: str, reason: str) -> Status:
        return Status(
            state=state,
            reason=reason,
            step=self.step,
            seconds=round(self.seconds, 3),
            goal_step=self.goals.first,
            trailing_goal_step=self.goals.trailing,
            skipped_steps=self.skipped_steps,
            saved_step=self.saved_step or None,  # nothing is lost with one of step 0
            best_step=self.best_step,
            best=self.best,
            test=self.test,
        )

    def _save(self) -> None:
        weight = self.stepper.not_finite_weight()
        if weight is not None:
            raise NotFiniteError(f"weight {weight} is not finite after step {self.step}")
        best = {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        values = {
            "device": self.stepper.generator.device.type,
            "seconds": self.seconds,
            "evaluated_step": self.evaluated_step,
            "best_step": self.best_step,
            "best": self.best,
        }
        status = replace(self._status(RUNNING, ""), saved_step=self.step)
        self.run.save(self.step, {**self.stepper.tensors(), **best}, values, status)
        self.saved_at, self.saved_step = time.monotonic(), self.step

    def _restore_or_refuse(self, checkpoint: Checkpoint, rows: Iterator[dict[str, Any]]) -> None:
        odd = misfits(self.stepper, checkpoint.tensors, checkpoint.values)
        try:
            if not odd:
                for row in rows:
                    if "loss" in row:
                        self._count(row["step"], row)
                self._restore(checkpoint)
        except torch.OutOfMemoryError:
            raise
        except (LookupError, TypeError, RuntimeError) as error:
            odd = [_one_line(error)]
        if odd:
            raise RecordError(
                f"the checkpoint of step {checkpoint.step} does not fit its run ({odd[0]}); "
                "--force starts over"
            )

    def _restore(self, checkpoint: Checkpoint) -> None:
        values = checkpoint.values
        self.step = self.saved_step = checkpoint.step
        self.seconds = self.timed_seconds = values["seconds"]
        self.evaluated_step = values["evaluated_step"]
        self.best_step, self.best = values["best_step"], values["best"]
        device = self.stepper.generator.device
        best = without_prefix("best.", checkpoint.tensors)
        self.best_weights = {name: tensor.to(device) for name, tensor in best.items()}
        self.stepper.restore(checkpoint.tensors, checkpoint.step)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the record'} cannot be read or written: {error.strerror}"
    return f"{error}".partition("\n")[0] or type(error).__name__
