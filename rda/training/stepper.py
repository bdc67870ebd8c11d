"""One optimisation step, all of it on the device: no value is fetched until it is asked for.

A batch is drawn in `step`, the loss is taken in `_forward`, the weights move in `_update`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor, nn

from rda.scan.engines import ON_GPUS
from rda.settings import Recipe
from rda.tasks import Batch, Part, Source
from rda.training.clipping import Clipping
from rda.training.cuda_graph import CudaGraph
from rda.training.model import SequenceModel
from rda.training.noise import Noise, draw_noise
from rda.training.team import ALONE, Order, Team
from rda.training.text_model import TextModel

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of each parameter, under torch's names."""
WARM_UP = 3
"""Steps before one is recorded: libraries allocate memory and choose kernels at first calls."""
WARM_UP_OF_A_TEAM = 11
"""DistributedDataParallel times its first ten steps, which a recording does not allow."""
SAMPLE = 120
"""Characters that a model of text writes after an evaluation."""
GRAPHED_ENGINES = (*ON_GPUS, "cuDNN")
"""Engines whose training step is recorded as a CUDA graph. A Python loop over time has thousands
of launches, and its graph would be too long."""


class Row(dict[str, float]):
    """The values of one step by column."""

    culprit: str | None = None
    """The name of the first tensor that was not finite at this step."""


class Stepper:
    """A model with its optimiser, its batches and the values of its last steps.

    A step whose loss or gradients are not finite changes no weights. Unless the recipe says to
    skip such steps, no step after it does either: the weights stay as they were until the rows
    are fetched and the run is ended.
    """

    def __init__(
        self,
        source: Source,
        model: SequenceModel,
        recipe: Recipe,
        generator: Generator,
        room: int,
        *,
        team: Team = ALONE,
        accumulate: int = 1,
    ) -> None:
        self.source = source
        self.task = source.task
        self.model = model
        self.team = team
        self.accumulate = accumulate
        self._together = team.together(model)
        self.recipe = recipe
        self.generator = generator
        self.state: Any = None
        self.parameters = dict(model.named_parameters())
        device = generator.device
        self.optimiser = torch.optim.Adam(
            self._groups(),
            lr=self._first_learning_rate(device),
            betas=(recipe.adam_beta1, recipe.adam_beta2),
            eps=recipe.adam_epsilon,
            weight_decay=recipe.weight_decay,
            decoupled_weight_decay=True,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.steps_done = 0
        self._broken = torch.zeros((), device=device)
        # Adam changes nothing where this is 1; torch.amp.GradScaler uses the same attribute.
        self.optimiser.found_inf = self._broken  # type: ignore[attr-defined]
        self.clipping = Clipping(recipe, device)
        self._rows = torch.zeros(room, 3, device=device)
        self._filled = 0
        self._warming_up = WARM_UP if team.size == 1 else WARM_UP_OF_A_TEAM
        self._graph_of_step: CudaGraph | None = None

    def _groups(self) -> list[dict[str, Any]]:
        """All parameters, or matrices that decay and the others that do not."""
        if not self.recipe.weight_decay:
            return [{"params": list(self.parameters.values())}]
        decayed: list[Tensor] = []
        others: list[Tensor] = []
        for name, parameter in self.parameters.items():
            (decayed if "weight" in name else others).append(parameter)
        return [{"params": decayed}, {"params": others, "weight_decay": 0.0}]

    def _first_learning_rate(self, device: torch.device) -> float | Tensor:
        """A tensor if the rate changes on a GPU: the CUDA graph reads it at each replay."""
        rate = self.recipe.learning_rate
        changes = self.recipe.changes_learning_rate and device.type == "cuda"
        return torch.tensor(rate, device=device) if changes else rate

    def _set_learning_rate(self) -> None:
        if not self.recipe.changes_learning_rate:
            return
        value = self.recipe.learning_rate_at(self.steps_done + 1)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    def engine(self) -> str:
        """The engine that runs the unit, in this recipe's precision and with torch's switches."""
        with self._precision():
            return self.model.engine_for(self.recipe.batch_size)

    @property
    def full(self) -> bool:
        """Whether the rows must be fetched before there can be another step."""
        return self._filled == len(self._rows)

    def step(self) -> None:
        """Draw a batch, differentiate its loss, clip, and let Adam move the weights.

        Of a team every member draws the whole batch and takes its own rows.
        """
        self.team.tell(Order.STEP)
        carried = None if self.source.start_of_stream() else self.state
        batch = self.source.batch(self.generator, self.recipe.batch_size)
        self._set_learning_rate()
        with self.team.listening():
            row, *parts = self._update_quickly(batch, self._noise(batch), state_tensors(carried))
        self._rows[self._filled] = row
        self._filled += 1
        self.steps_done += 1
        if self.task.carries_state:
            self.state = _state_from(parts)

    @cached_property
    def _can_be_recorded(self) -> bool:
        """Whether a step is one piece of work for a GPU."""
        one_piece = self.generator.device.type == "cuda" and self.accumulate == 1
        return one_piece and self.team.can_record and self.engine() in GRAPHED_ENGINES

    @property
    def replays(self) -> bool:
        """Whether steps are replayed from a recording by now."""
        return self._graph_of_step is not None

    def _noise(self, batch: Batch) -> Noise:
        read = batch.input.shape[:2] if self.task.reads_every_step else batch.input.shape[1:2]
        outputs = (*read, self.recipe.hidden_size)
        return draw_noise(self.recipe, self.steps_done, outputs, self.model.recurrent_weights)

    def _update_quickly(
        self, batch: Batch, noise: Noise, carried: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        """On a GPU launching a step takes longer than running it: soon a CUDA graph is replayed."""
        tensors = [tensor for tensor in batch if tensor is not None]
        drawn = len(tensors)
        tensors += noise.tensors()
        known = len(tensors)

        def update(*tensors: Tensor) -> Sequence[Tensor]:
            now = noise.with_tensors(tensors[drawn:known])
            return self._update(Batch(*tensors[:drawn]), now, tensors[known:])

        # The first batch of a stream carries no state, so the recording does not fit it.
        if self.task.carries_state and not carried:
            return update(*tensors)
        if self._warming_up > 0 or not self._can_be_recorded:
            self._warming_up -= 1
            return update(*tensors, *carried)
        if self._graph_of_step is None:
            self.optimiser.zero_grad()  # so that the gradients lie where the recording puts them
            self._graph_of_step = CudaGraph(update, [*tensors, *carried])
        # A launch behind a replay that waits for a lost process may never return, and nothing would
        # end it.
        self.team.wait_for(self.generator.device)
        return self._graph_of_step(*tensors, *carried)

    def _update(self, batch: Batch, noise: Noise, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        """The metrics of one step, and the state after its last time step."""
        self.optimiser.zero_grad()
        if self.team.size == self.accumulate == 1:
            loss, losses, score, state = self._forward(batch, _state_from(carried), noise=noise)
            objective = losses.sum() if self.recipe.reduction == "sum" else loss
            (objective * self.clipping.scale).backward()
        else:
            loss, score, state = self._differentiate_in_pieces(batch, noise, carried)
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        culprit = self._first_not_finite(loss, gradients)
        broken = (culprit > 0).float()
        if self.recipe.not_finite == "skip":
            self._broken.copy_(broken)
        else:
            torch.maximum(self._broken, broken, out=self._broken)
        self.clipping.clip(gradients, self._broken)
        self.optimiser.step()
        row = torch.stack((loss.detach(), score, culprit))
        return row, *self._state_to_carry(state, carried)

    def _differentiate_in_pieces(
        self, batch: Batch, noise: Noise, carried: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Any]:
        """The gradients of the whole batch from this member's rows, some of them at a time.

        Each piece counts by its share of the answers of the whole batch, so that the sum over all
        pieces and members is the loss of the batch. DDP divides it by the number of members.
        """
        whole, answers = batch.target.numel(), self.source.answers(batch.target)
        mine = self.team.rows(batch.input.shape[1])
        summed = torch.zeros(2, device=self.generator.device)
        states = []
        pieces = list(_pieces(mine, self.accumulate))
        for rows in pieces:
            some = self._rows_of(batch, rows)
            before = [part[:, rows.start - mine.start : rows.stop - mine.start] for part in carried]
            last = rows is pieces[-1]
            with nullcontext() if last else self.team.without_reducing(self._together):
                loss, _, score, state = self._forward(
                    some, _state_from(before), self._together, noise.of_rows(rows)
                )
                share = self.source.answers(some.target) / answers
                objective = loss * share * (whole if self.recipe.reduction == "sum" else 1)
                (objective * self.team.size * self.clipping.scale).backward()
            summed += torch.stack((loss.detach(), score)) * share
            states.append(state_tensors(state))
        loss, score = self.team.total(summed)
        joined = [torch.cat(parts, 1) for parts in zip(*states, strict=True)]
        return loss, score, _state_from(joined)

    def _rows_of(self, batch: Batch, rows: slice) -> Batch:
        """Some sequences of a batch."""
        target = batch.target[:, rows] if self.task.reads_every_step else batch.target[rows]
        lengths = None if batch.lengths is None else batch.lengths[rows]
        return Batch(batch.input[:, rows], target, lengths)

    def _state_to_carry(self, state: Any, before: Sequence[Tensor]) -> list[Tensor]:
        """The state for the next batch; after a skipped step, the state before that step."""
        if not self.task.carries_state:
            return []
        parts = [part.detach() for part in state_tensors(state)]
        if self.recipe.not_finite != "skip":
            return parts
        before = before or [torch.zeros_like(part) for part in parts]
        skipped = self._broken > 0
        return [torch.where(skipped, *both) for both in zip(before, parts, strict=True)]

    def _forward(
        self,
        batch: Batch,
        state: Any,
        model: nn.Module | None = None,
        noise: Noise | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        if noise is not None:
            state = _state_from(noise.on_state(state_tensors(state)))
        with self._precision():
            prediction, state = (model or self.model)(
                batch.input, state, lengths=batch.lengths, noise=noise
            )
        prediction = prediction.float()
        losses = self.source.losses(prediction, batch.target)
        loss = losses.mean()
        score = self.source.score(prediction.detach(), batch.target, loss.detach())
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
        self.team.wait_for(self.generator.device)
        names = ["loss"]
        names += [f"gradient of {n}" for n, p in self.parameters.items() if p.grad is not None]
        rows = []
        for loss, score, culprit in self._rows[: self._filled].tolist():
            row = Row({"loss": loss, self.source.metric: score})
            row.culprit = names[int(culprit) - 1] if culprit else None
            rows.append(row)
        self._filled = 0
        return rows

    @torch.no_grad()
    def evaluate(self, part: Part, stop: Any = lambda: False) -> dict[str, float] | None:
        """Mean loss and metric over a part of the data; None where `stop` became true midway.

        A team evaluates to the end.
        """
        self.team.tell(Order.VALIDATE if part == "validation" else Order.TEST)
        totals: dict[str, Tensor | float] = {}
        answers: Tensor | int = 0
        state = None
        for batch in self.source.evaluation(part, self.recipe.batch_size):
            if self.team.size > 1:
                batch = self._rows_of(batch, self.team.rows(batch.input.shape[1]))
                if not batch.input.shape[1]:
                    continue
            loss, _, score, state = self._forward(batch, state if self.task.carries_state else None)
            count = self.source.answers(batch.target)
            for name, value in {"loss": loss, self.source.metric: score}.items():
                totals[name] = totals.get(name, 0.0) + value.double() * count
            answers = answers + count
            if stop() and self.team.size == 1:
                return None
        if self.team.size > 1:
            names = ("loss", self.source.metric)
            sums = [float(totals.get(name, 0.0)) for name in names]
            both = torch.tensor([*sums, float(answers)], dtype=torch.float64)
            *found, answers = self.team.total(both).tolist()
            totals = dict(zip(names, found, strict=True))
        return {
            f"{part}_{name}": float(total) / max(int(answers), 1) for name, total in totals.items()
        }

    def use(self, weights: Mapping[str, Tensor] | None) -> None:
        """Take other weights for the model; None where the leader of a team has them."""
        self.team.tell(Order.LOAD)
        self.model.load_state_dict(self.team.from_leader(weights))

    def sample(self) -> str | None:
        """What a model of text writes by now; None for other models."""
        if not isinstance(self.model, TextModel):
            return None
        return self.model.generate(length=SAMPLE, temperature=0.8, seed=self.steps_done)

    def not_finite_weight(self) -> str | None:
        """The name of the first weight that is not finite, if there is one."""
        for name, parameter in self.parameters.items():
            if not bool(parameter.detach().isfinite().all()):
                return name
        return None

    def tensors(self) -> dict[str, Tensor]:
        """Everything a later process needs to continue."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.parameters.items():
            for key, tensor in self.optimiser.state[parameter].items():
                found[f"adam.{key}.{name}"] = tensor
        for i, tensor in enumerate(self.whole_state()):
            found[f"state.{i}"] = tensor
        for name, tensor in self.source.position().items():
            found[f"task.{name}"] = tensor
        found |= self.clipping.tensors()
        found["generator"] = self.generator.get_state()
        return found

    def whole_state(self) -> list[Tensor]:
        """The state that is carried into the next batch, for all its rows."""
        if not self.task.carries_state or self.steps_done == 0:
            return list(state_tensors(self.state))
        self.team.tell(Order.GATHER)
        return self.team.gathered(state_tensors(self.state), 1)

    def restore(self, tensors: dict[str, Tensor] | None, step: int) -> None:
        """Continue from the `tensors` of a checkpoint that was made after `step`; None where the
        leader of a team has them."""
        self.team.tell(Order.RESTORE, step)
        tensors = self.team.from_leader(tensors)
        self.steps_done = step
        self.model.load_state_dict(without_prefix("model.", tensors))
        for name, parameter in self.parameters.items():
            state = {
                key: tensors[f"adam.{key}.{name}"].to(parameter.device)
                for key in ADAM
                if f"adam.{key}.{name}" in tensors
            }
            if state:
                self.optimiser.state[parameter] = state
        # A file of tensors keeps no order, so the parts of the state are sorted by their numbers.
        numbered = sorted(without_prefix("state.", tensors).items())
        parts = [tensor.to(self.generator.device) for _, tensor in numbered]
        if self.team.size > 1:
            parts = [part[:, self.team.rows(part.shape[1])] for part in parts]
        self.state = _state_from(parts)
        self.source.move_to(without_prefix("task.", tensors))
        self.clipping.restore(tensors)
        self.generator.set_state(tensors["generator"])
        self._graph_of_step = None  # it refers to Adam's old tensors


def _pieces(rows: slice, count: int) -> Iterator[slice]:
    """Some rows in so many pieces, none of them empty."""
    size = rows.stop - rows.start
    count = min(count, size)
    for i in range(count):
        yield slice(rows.start + size * i // count, rows.start + size * (i + 1) // count)


def without_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def state_tensors(state: Any) -> tuple[Tensor, ...]:
    """The parts of a state; none of no state."""
    if state is None:
        return ()
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _state_from(parts: Sequence[Tensor]) -> Any:
    """The inverse of `state_tensors`."""
    return None if not parts else parts[0] if len(parts) == 1 else tuple(parts)
