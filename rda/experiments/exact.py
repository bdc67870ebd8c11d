"""What is known of a claim beside our runs: what the printed equations do where ours are computed
otherwise, and Lemma 1, which is exact."""

import math
from dataclasses import dataclass

from rda.analysis.lemma import Demand
from rda.experiments.catalogue import LEMMA_LENGTHS
from rda.experiments.checks import Check, Judgement, Runs, opposite
from rda.experiments.evidence import Evidence

LOWEST_LOGIT, HIGHEST_LOGIT = math.log(2.0**-126), math.log(2.0**128)
"""Logits whose exp is at the ends of float32's normal numbers."""
OUTSIDE = "outside the lemma's premise, because a readout needs signs alone"


@dataclass(frozen=True)
class AsPrinted:
    """What the printed equations do, where ours do something else."""

    judgement: Judgement
    text: str
    ours: str
    """How ours are computed instead."""


def relu_as_printed(_: Evidence) -> AsPrinted:
    """`rda.equations.plain_step` does it, with any weights: a test shows it."""
    return AsPrinted(
        "confirmed",
        "half of the units have no attention at the first step, which divides 0 by 0, so that half "
        "of h is NaN after it and all of h after the next",
        "with 0 / 0 defined",
    )


def softplus_as_printed(_: Evidence) -> AsPrinted:
    """The same beside an attention that is not 0 at the first step."""
    return AsPrinted(
        "confirmed",
        "ReLU divides 0 by 0 at the first step, softplus is not 0 there",
        "with 0 / 0 defined",
    )


def rwa_as_printed(evidence: Evidence) -> AsPrinted:
    """It was not trained. What our trained unit sums up is more than it could hold."""
    weight = evidence.highest_weight("multicopy", "RWA")
    reached = "was not looked at" if weight is None else f"reaches {weight:.0f}"
    return AsPrinted(
        "undecided",
        f"not trained; n and d end at e^{HIGHEST_LOGIT:.1f} in float32, and log d of our trained "
        f"RWA {reached}",
        "in log space",
    )


def attention_has_to_grow(runs: Runs) -> list[Check]:
    """Lemma 1: exactly, and what trained units show, of which the RWA is outside of it."""
    short, long, longest = LEMMA_LENGTHS[0], LEMMA_LENGTHS[2], LEMMA_LENGTHS[-1]
    rwa = [runs.highest_attention("RWA", length) for length in (short, long)]
    rda = [runs.highest_attention("RDA-exp-tanh", length) for length in (short, longest)]
    demand = Demand()
    asked = demand.log_bound(long)[-1]
    return [
        Check(
            "yes" if demand.factor >= demand.bound > 1 else "no",
            f"exactly: by a factor of {demand.factor:.3g} at each step, at least "
            f"{demand.bound:.3g} by the lemma",
        ),
        Check(
            "yes" if rda[1] <= rda[0] else "no",
            f"trained RDA: log a up to {rda[0]:.3g} at length {short}, {rda[1]:.3g} at {longest}",
        ),
        Check(
            "yes" if rwa[1] > rwa[0] else "no",
            f"trained RWA: log a up to {rwa[0]:.3g} at length {short}, {rwa[1]:.3g} at {long}, "
            f"where the bound for outputs of one half asks for {asked:.1f}",
            OUTSIDE,
        ),
    ]


def rwa_cannot_alternate(runs: Runs) -> list[Check]:
    """Corollary 2: exactly, and what trained units show, of which the RWA is outside of it."""
    longest = Demand().longest(HIGHEST_LOGIT - LOWEST_LOGIT)
    rda, rwa = (_at_all_lengths(runs, unit) for unit in ("RDA-exp-tanh", "RWA"))
    return [
        Check(
            "yes" if longest < LEMMA_LENGTHS[-1] else "no",
            f"exactly: float32 has logits of {LOWEST_LOGIT:.1f} to {HIGHEST_LOGIT:.1f}, enough for "
            f"{longest} steps at outputs of one half",
        ),
        Check(rda.answer, f"RDA, steps to learn each length: {rda.text}"),
        Check(opposite(rwa.answer), f"RWA, steps to learn each length: {rwa.text}", OUTSIDE),
    ]


def _at_all_lengths(runs: Runs, unit: str) -> Check:
    """Whether a unit learned the longest sequences, with the numbers of all lengths."""
    cells = {length: runs.evidence.lemma(unit, length) for length in LEMMA_LENGTHS}
    told = ", ".join(f"{length}: {cell.text}" for length, cell in cells.items())
    return Check(runs.learns_alternating(unit, LEMMA_LENGTHS[-1]).answer, told)
