"""One optimisation step, all of it on the device: no value is fetched until it is asked for."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Generator, Tensor

from rda.scan.cuda.choosing import WAYS
from rda.tasks.task import Batch, Part, Task
from rda.training.model import SequenceModel
from rda.training.recording import Recording
from rda.training.settings import Recipe

WARM_UP = 3
"""Steps before one is recorded: libraries allocate and choose at their first calls."""
RECORDED = (*WAYS, "cuDNN")
"""Engines whose steps are few pieces of work; a loop over time would be a recording too long."""


class Row(dict[str, float]):
    """One step's values by column."""

    culprit: str | None = None
    """The first tensor that was not finite at this step."""


class Stepper:
    """A model with its optimiser, its batches and, for a while, the values of its last steps.

    A step whose loss or gradients are not finite changes nothing, nor does any step after it:
    the weights stay as they were until the rows are fetched and the run is ended.
    """

    def __init__(
        self, task: Task, model: SequenceModel, recipe: Recipe, generator: Generator, room: int
    ) -> None:
        self.task = task
        self.model = model
        self.recipe = recipe
        self.generator = generator
        self.state: Any = None
        self.parameters = dict(model.named_parameters())
        device = generator.device
        self.optimiser = torch.optim.Adam(
            self.parameters.values(),
            lr=recipe.learning_rate,
            fused=True,
            capturable=device.type == "cuda",
        )
        self._broken = torch.zeros((), device=device)
        # As torch.amp.GradScaler does it: Adam leaves everything as it is where this is 1.
        self.optimiser.found_inf = self._broken  # type: ignore[attr-defined]
        self._rows = torch.zeros(room, 3, device=device)
        self._filled = 0
        self._warming_up: float = WARM_UP if device.type == "cuda" else math.inf
        self._recording: Recording | None = None

    def engine(self) -> str:
        """What runs the unit, in this recipe's precision and with torch's switches as they are."""
        with self._precision():
            return self.model.engine_for(self.recipe.batch_size)

    @property
    def full(self) -> bool:
        """Whether the rows must be fetched before the next step."""
        return self._filled == len(self._rows)

    def step(self) -> None:
        """Draw a batch, differentiate its loss, clip, and let Adam move the weights."""
        carried = None if self.task.start_of_stream() else self.state
        batch = self.task.batch(self.generator, self.recipe.batch_size)
        row, *parts = self._update_quickly(batch, _parts(carried))
        self._rows[self._filled] = row
        self._filled += 1
        if self.task.carries_state:
            self.state = _whole(parts)

    def _update_quickly(self, batch: Batch, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        """On a GPU the host is slower than the work: soon it only starts a recording."""
        tensors = [tensor for tensor in batch if tensor is not None]
        count = len(tensors)

        def update(*tensors: Tensor) -> Sequence[Tensor]:
            return self._update(Batch(*tensors[:count]), tensors[count:])

        # The start of a stream, which carries nothing, is another piece of work.
        if self.task.carries_state and not carried:
            return update(*tensors)
        if self._warming_up == WARM_UP and self.engine() not in RECORDED:
            self._warming_up = math.inf
        if self._warming_up > 0:
            self._warming_up -= 1
            return update(*tensors, *carried)
        if self._recording is None:
            self.optimiser.zero_grad()  # so that the gradients lie where the recording puts them
            self._recording = Recording(update, [*tensors, *carried])
        return self._recording(*tensors, *carried)

    def _update(self, batch: Batch, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        """One step's row, and the state in which its sequences end."""
        loss, losses, score, state = self._forward(batch, _whole(carried))
        objective = losses.sum() if self.recipe.reduction == "sum" else loss
        self.optimiser.zero_grad()
        objective.backward()
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        culprit = self._first_not_finite(loss, gradients)
        torch.maximum(self._broken, (culprit > 0).float(), out=self._broken)
        if self.recipe.clip:
            torch._foreach_clamp_min_(gradients, -self.recipe.clip)
            torch._foreach_clamp_max_(gradients, self.recipe.clip)
        self.optimiser.step()
        parts = _parts(state) if self.task.carries_state else ()
        return torch.stack((loss.detach(), score, culprit)), *(part.detach() for part in parts)

    def _forward(self, batch: Batch, state: Any) -> tuple[Tensor, Tensor, Tensor, Any]:
        with self._precision():
            prediction, state = self.model(batch, state)
        prediction = prediction.float()
        losses = self.task.losses(prediction, batch.target)
        loss = losses.mean()
        score = self.task.score(prediction.detach(), batch.target, loss.detach())
        return loss, losses, score, state

    def _precision(self) -> AbstractContextManager[Any]:
        if self.recipe.precision == "bfloat16":
            return torch.autocast(self.generator.device.type, torch.bfloat16)
        return nullcontext()

    def _first_not_finite(self, loss: Tensor, gradients: list[Tensor]) -> Tensor:
        """0 where all are finite, otherwise 1 for the loss, 2 for the first gradient, ..."""
        largest = torch._foreach_norm(gradients, ord=float("inf"))
        finite = torch.stack((loss.detach(), *largest)).isfinite()
        return torch.where(finite.all(), 0, (~finite).float().argmax() + 1).float()

    def fetch(self) -> list[Row]:
        """The rows of the steps since the last fetch, in one transfer."""
        names = ["loss"]
        names += [f"gradient of {n}" for n, p in self.parameters.items() if p.grad is not None]
        rows = []
        for loss, score, culprit in self._rows[: self._filled].tolist():
            row = Row({"loss": loss, self.task.metric: score})
            row.culprit = names[int(culprit) - 1] if culprit else None
            rows.append(row)
        self._filled = 0
        return rows

    @torch.no_grad()
    def evaluate(self, part: Part, stop: Any = lambda: False) -> dict[str, float] | None:
        """Mean loss and metric over a part of the data; None where `stop` said so midway."""
        totals: dict[str, Tensor | float] = {}
        answers = 0
        state = None
        for batch in self.task.evaluation(part, self.recipe.batch_size):
            loss, _, score, state = self._forward(batch, state if self.task.carries_state else None)
            count = batch.target.numel()
            for name, value in {"loss": loss, self.task.metric: score}.items():
                totals[name] = totals.get(name, 0.0) + value.double() * count
            answers += count
            if stop():
                return None
        return {f"{part}_{name}": float(total) / answers for name, total in totals.items()}

    def not_finite_weight(self) -> str | None:
        """The name of a weight that is not finite, if there is one."""
        for name, parameter in self.parameters.items():
            if not bool(parameter.detach().isfinite().all()):
                return name
        return None

    def tensors(self) -> dict[str, Tensor]:
        """Everything a later process needs to go on."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.parameters.items():
            for key, tensor in self.optimiser.state[parameter].items():
                found[f"adam.{key}.{name}"] = tensor
        for i, tensor in enumerate(_parts(self.state)):
            found[f"state.{i}"] = tensor
        for name, tensor in self.task.position().items():
            found[f"task.{name}"] = tensor
        found["generator"] = self.generator.get_state()
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from `tensors`."""
        self.model.load_state_dict(under("model.", tensors))
        for name, parameter in self.parameters.items():
            state = {
                key: tensors[f"adam.{key}.{name}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"adam.{key}.{name}" in tensors
            }
            if state:
                self.optimiser.state[parameter] = state
        # A file of tensors keeps no order: the parts of the state are told by their numbers.
        numbered = sorted(under("state.", tensors).items())
        self.state = _whole([tensor.to(self.generator.device) for _, tensor in numbered])
        self.task.move_to(under("task.", tensors))
        self.generator.set_state(tensors["generator"])
        self._recording = None  # it knows Adam's tensors of before


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _parts(state: Any) -> tuple[Tensor, ...]:
    if state is None:
        return ()
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _whole(parts: Sequence[Tensor]) -> Any:
    """The state of which these are the parts."""
    return None if not parts else parts[0] if len(parts) == 1 else tuple(parts)
