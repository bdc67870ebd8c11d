"""Lemma 1 and Corollary 2 of the paper (Appendix A), as numbers.

An RWA that shall output h_t = (-1)^t c has to move its average between x+ and x-, where
f_h(x+-) = +-c, at every step, against the weight d of everything it has averaged so far. From
n_{t+1} / d_{t+1} = x- and n_t / d_t = x+ follows, for the features z of the step,

    a_{t+1} = d_t (x+ - x-) / (x- - z)

With |z| <= Z the right side is smallest at z = -Z, and the lemma bounds it from below by
d_t delta / (Z + x), with delta = x+ - x-. Either way d grows by a constant factor at each step, so
the logarithms here grow linearly: nothing overflows, however long the sequence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Demand:
    """What an RWA with f_h = tanh needs to output (-1)^t c with features of at most `largest`."""

    c: float = 0.5
    largest: float = 1.0
    """Z, the largest absolute value of the features."""

    def __post_init__(self) -> None:
        if not 0 < self.c < 1:
            raise ValueError(f"c should be between 0 and 1, got {self.c}")
        if not self.largest > self.x:
            raise ValueError(
                f"largest should be above {self.x:.4g}, the average that h = {self.c:g} needs: an "
                f"average is never beyond what is averaged; got {self.largest}"
            )

    @property
    def x(self) -> float:
        """The average that the output c needs."""
        return math.atanh(self.c)

    @property
    def factor(self) -> float:
        """The smallest factor by which d must grow at each step."""
        return (self.largest + self.x) / (self.largest - self.x)

    @property
    def bound(self) -> float:
        """The factor by which, as the lemma says, d must grow at least."""
        return 1 + 2 * self.x / (self.largest + self.x)

    def log_attention(self, steps: int) -> list[float]:
        """log a_t of the smallest attention that does it, t = 1, 2, ...; a_1 is 1."""
        return _log_attention(self.factor, steps)

    def log_bound(self, steps: int) -> list[float]:
        """log of the lemma's lower bound for a_t, t = 1, 2, ...; a_1 is 1."""
        return _log_attention(self.bound, steps)

    def longest(self, largest_logit: float) -> int:
        """The longest sequence that is possible with attention logits between 0 and this one.

        Corollary 2: a unit whose logits are bounded cannot go on for ever.
        """
        more = (largest_logit - math.log(self.factor - 1)) / math.log(self.factor)
        return 2 + math.floor(more) if more >= 0 else 1


def _log_attention(factor: float, steps: int) -> list[float]:
    """d_t = factor^(t-1), so after the first step a_t = d_t - d_{t-1} = d_{t-1} (factor - 1)."""
    later = (math.log(factor - 1) + (t - 2) * math.log(factor) for t in range(2, steps + 1))
    return [0.0, *later][:steps]


def averages(log_attention: Sequence[float], features: Sequence[float]) -> list[float]:
    """n_t / d_t of an RWA with these attention logits and features, computed stably."""
    found: list[float] = []
    log_weight, average = -math.inf, 0.0
    for logit, z in zip(log_attention, features, strict=True):
        top = max(log_weight, logit)
        total = top + math.log(math.exp(log_weight - top) + math.exp(logit - top))
        average += math.exp(logit - total) * (z - average)
        log_weight = total
        found.append(average)
    return found
