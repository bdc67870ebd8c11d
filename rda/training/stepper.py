"""One optimisation step, all of it on the device: no value is fetched until it is asked for."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Generator, Tensor

from rda.tasks.task import Batch, Part, Task
from rda.training.model import SequenceModel
from rda.training.settings import Recipe


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
        self.optimiser = torch.optim.Adam(
            self.parameters.values(), lr=recipe.learning_rate, fused=True
        )
        device = generator.device
        self._broken = torch.zeros((), device=device)
        self._rows = torch.zeros(room, 3, device=device)
        self._filled = 0

    @property
    def full(self) -> bool:
        """Whether the rows must be fetched before the next step."""
        return self._filled == len(self._rows)

    def step(self) -> None:
        """Draw a batch, differentiate its loss, clip, and let Adam move the weights."""
        carried = None if self.task.start_of_stream() else self.state
        batch = self.task.batch(self.generator, self.recipe.batch_size)
        loss, losses, score, state = self._forward(batch, carried)
        objective = losses.sum() if self.recipe.reduction == "sum" else loss
        self.optimiser.zero_grad()
        objective.backward()
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        culprit = self._first_not_finite(loss, gradients)
        self._broken = torch.maximum(self._broken, (culprit > 0).float())
        if self.recipe.clip:
            torch._foreach_clamp_min_(gradients, -self.recipe.clip)
            torch._foreach_clamp_max_(gradients, self.recipe.clip)
        # As torch.amp.GradScaler does it: Adam leaves everything as it is where this is 1.
        self.optimiser.found_inf = self._broken  # type: ignore[attr-defined]
        self.optimiser.step()
        self._rows[self._filled] = torch.stack((loss.detach(), score, culprit))
        self._filled += 1
        if self.task.carries_state:
            self.state = _detached(state)

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
        parts = [tensor.to(self.generator.device) for _, tensor in numbered]
        self.state = None if not parts else parts[0] if len(parts) == 1 else tuple(parts)
        self.task.move_to(under("task.", tensors))
        self.generator.set_state(tensors["generator"])


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


def _detached(state: Any) -> Any:
    parts = tuple(part.detach() for part in _parts(state))
    return parts[0] if len(parts) == 1 else parts
