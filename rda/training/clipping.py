"""Gradients within limits: by value, by their norm, and by what their norm usually is."""

import torch
from torch import Tensor

from rda.settings import Recipe

NORM_WINDOW = 100
"""The running mean of the gradients' norm forgets at this many steps."""
SMALLER, SMALLEST = 2.0**-32, 2.0**-64
"""By how much the loss is scaled down after gradients that were not finite, and at most."""


class Clipping:
    """Clips the gradients of a loss that was multiplied by `scale`, and undoes the scale.

    Through hundreds of steps a gradient can outgrow float32, though clipped it would be as small
    as any other. So where gradients are clipped, the loss is scaled down after a step that was not
    finite, gradients are clipped at that scale, and the scale doubles until it is 1 again. Powers
    of two change no digit.
    """

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        self.scale = torch.ones((), device=device)
        self.usual_norm = torch.zeros((), device=device)

    def clip(self, gradients: list[Tensor], broken: Tensor) -> None:
        """Clip them in place; the next scale is a smaller one where `broken` is 1."""
        if not self.recipe.clips:
            return
        torch._foreach_div_(gradients, self._divisor(gradients))
        if self.recipe.clip:
            torch._foreach_clamp_min_(gradients, -self.recipe.clip)
            torch._foreach_clamp_max_(gradients, self.recipe.clip)
        smaller = (self.scale * SMALLER).clamp(min=SMALLEST)
        larger = (self.scale * 2).clamp(max=1.0)
        self.scale.copy_(torch.where(broken > 0, smaller, larger))

    def _divisor(self, gradients: list[Tensor]) -> Tensor:
        """What undoes the scale and takes the norm to its limits, in one division."""
        divisor = self.scale
        if not (self.recipe.clip_norm or self.recipe.clip_relative):
            return divisor
        norms = torch._foreach_norm(gradients, dtype=torch.float64)  # squares would be infinite
        norm = torch.linalg.vector_norm(torch.stack(norms)).float()
        if self.recipe.clip_norm:
            divisor = torch.maximum(divisor, norm / self.recipe.clip_norm)
        if self.recipe.clip_relative:
            divisor = self._to_usual_norm(norm, divisor)
        return divisor

    def _to_usual_norm(self, norm: Tensor, divisor: Tensor) -> Tensor:
        """A divisor that also keeps the norm from being far above what it was in recent steps.

        Adam divides by the root of the recent squared gradients. Where those were tiny for long,
        one ordinary gradient would be a step of many times the learning rate.
        """
        usual = self.usual_norm
        begun = usual > 0
        limit = norm / (self.recipe.clip_relative * usual)
        divisor = torch.where(begun, torch.maximum(divisor, limit), divisor)
        allowed = norm / divisor
        now = torch.where(begun, usual.lerp(allowed, 1 / NORM_WINDOW), allowed)
        usual.copy_(torch.where(norm.isfinite(), now, usual))
        return divisor

    def tensors(self) -> dict[str, Tensor]:
        """What a later process needs to continue."""
        found = {"scale": self.scale} if self.recipe.clips else {}
        return found | ({"usual_norm": self.usual_norm} if self.recipe.clip_relative else {})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the tensors of a checkpoint."""
        if self.recipe.clip_relative:
            self.usual_norm.copy_(tensors["usual_norm"])
        if "scale" in tensors:  # earlier versions had none
            self.scale.copy_(tensors["scale"])
