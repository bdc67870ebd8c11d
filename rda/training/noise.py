"""What a training step hides from the model: outputs, weights, and the past of some rows.

It is drawn from the seed and the number of the step alone. So a run that goes on from a checkpoint
draws what it would have drawn without the pause, and every process of a team draws the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rda.settings import Recipe
from rda.training.seeds import seed_from


@dataclass(frozen=True)
class Noise:
    """One step's: True where a value is kept. None hides nothing."""

    recipe: Recipe
    outputs: Tensor | None = None
    """(..., batch, units), for what the readout sees."""
    weights: Tensor | None = None
    """For the recurrent weights."""
    pasts: Tensor | None = None
    """(batch), for the state that a row carries on."""

    def on_outputs(self, outputs: Tensor) -> Tensor:
        """What is left of a unit's outputs, larger by as much as was hidden."""
        return _kept(outputs, self.outputs, self.recipe.dropout)

    def on_weights(self, weights: Tensor) -> Tensor:
        """The same of its recurrent weights."""
        return _kept(weights, self.weights, self.recipe.weight_dropout)

    def on_state(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """A state, (layers, batch, units) each part, that is zero in the rows that start anew.

        Zeros are what every named unit starts from, as its layer takes and returns its state.
        """
        if self.pasts is None:
            return list(parts)
        return [torch.where(self.pasts.unsqueeze(-1), part, 0.0) for part in parts]

    def of_rows(self, rows: slice) -> "Noise":
        """For some sequences of the batch."""
        return replace(
            self,
            outputs=None if self.outputs is None else self.outputs[..., rows, :],
            pasts=None if self.pasts is None else self.pasts[rows],
        )

    def tensors(self) -> list[Tensor]:
        """All that was drawn."""
        return [tensor for tensor in self._drawn() if tensor is not None]

    def with_tensors(self, tensors: Sequence[Tensor]) -> "Noise":
        """The same with other tensors, in the order of `tensors`."""
        given = iter(tensors)
        return Noise(
            self.recipe, *(None if mine is None else next(given) for mine in self._drawn())
        )

    def _drawn(self) -> tuple[Tensor | None, ...]:
        return self.outputs, self.weights, self.pasts


def _kept(values: Tensor, kept: Tensor | None, dropped: float) -> Tensor:
    return values if kept is None else values * kept / (1 - dropped)


def draw_noise(recipe: Recipe, step: int, outputs: Sequence[int], weights: Tensor) -> Noise:
    """What a step hides of outputs of this size and of these recurrent weights."""
    if not (recipe.dropout or recipe.weight_dropout or recipe.restart_probability):
        return Noise(recipe)
    seed = seed_from("noise", recipe.seed, step)
    generator = torch.Generator(weights.device).manual_seed(seed)

    def kept(size: Sequence[int], dropped: float) -> Tensor | None:
        if not dropped:
            return None
        empty = torch.empty(tuple(size), device=weights.device, dtype=torch.bool)
        return empty.bernoulli_(1 - dropped, generator=generator)

    return Noise(
        recipe,
        kept(outputs, recipe.dropout),
        kept(weights.shape, recipe.weight_dropout),
        kept(outputs[-2:-1], recipe.restart_probability),
    )
