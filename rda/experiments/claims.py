"""What the paper claims, each claim with the checks that our runs are put to.

Claims are told in our own words; `place` says where the paper makes them. A claim is confirmed if
all of its checks hold, and so on (`weigh`). Where a run that it needs is missing, it is "not run".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from rda.experiments.catalogue import ACTIVATION_TASKS
from rda.experiments.checks import (
    ANOTHER_RECIPE,
    Check,
    Judgement,
    NotRunError,
    Runs,
    almost_always,
    mostly,
    often,
)
from rda.experiments.evidence import FACTOR, Evidence
from rda.experiments.exact import (
    AsPrinted,
    attention_has_to_grow,
    relu_as_printed,
    rwa_as_printed,
    rwa_cannot_alternate,
    softplus_as_printed,
)
from rda.experiments.protocol import RDAS

SINGLE = ("addition", "classify-length", "copy")
"""Tasks with one thing to remember and a goal; the two MNIST tasks have an accuracy instead."""
DIGITS = ("mnist", "mnist-permuted")
TEXT = "wikipedia"
OTHERS = (*RDAS, "RWA", "GRU")
MUCH = 2.0
"""Much faster, or many times as long, means at least twice."""
THREE = 2.5
"""Three times means what is rounded to three."""
CLOSE = FACTOR * 0.04
"""Closely behind means by at most so many bits: in the paper 0.037 and 0.040, with the factor that
is allowed to steps."""


@dataclass(frozen=True)
class Verdict:
    """What our runs say about a claim."""

    judgement: Judgement
    checks: tuple[Check, ...] = ()
    missing: str = ""
    """What is not run, where there is no judgement."""
    as_printed: AsPrinted | None = None
    of_ours: Judgement | None = None
    """The judgement on our unit, where it is not as printed."""

    @property
    def told(self) -> str:
        """The judgement in words; two of them where a claim is judged twice."""
        if self.as_printed is None:
            return self.judgement
        printed = self.as_printed
        return f"as printed: {printed.judgement}; {printed.ours}: {self.of_ours}"

    @property
    def evidence(self) -> list[str]:
        """Each check with its answer."""
        return [*self._printed, *(map(str, self.checks))] or [self.missing]

    @property
    def against(self) -> list[str]:
        """The checks that count and do not hold."""
        parts = [part for check in self.checks for part in check.parts or (check,)]
        failed = (part for part in parts if part.answer != "yes" and not part.aside)
        return [*self._printed, *map(str, failed)]

    @property
    def _printed(self) -> list[str]:
        return [] if self.as_printed is None else [f"as printed: {self.as_printed.text}"]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper."""

    name: str
    place: str
    text: str
    checks: Callable[[Runs], Sequence[Check]]
    as_printed: Callable[[Evidence], AsPrinted] | None = None

    def verdict(self, evidence: Evidence) -> Verdict:
        """What our runs say."""
        try:
            found = weigh(self.checks(Runs(evidence)))
        except NotRunError as error:
            return Verdict("not run", missing=str(error))
        if self.as_printed is None:
            return found
        printed = self.as_printed(evidence)
        return Verdict("judged twice", found.checks, "", printed, found.judgement)


def weigh(checks: Sequence[Check]) -> Verdict:
    """Confirmed if all checks that count hold, partly if some do. Where none does, contradicted if
    one says the opposite, otherwise undecided."""
    answers = [check.answer for check in checks if not check.aside]
    judgement: Judgement
    if not answers:
        judgement = ANOTHER_RECIPE
    elif "yes" in answers:
        judgement = "confirmed" if set(answers) == {"yes"} else "partly"
    else:
        judgement = "contradicted" if "no" in answers else "undecided"
    return Verdict(judgement, tuple(checks))


def tally(found: Iterable[Verdict]) -> str:
    """How many claims have each judgement: "10 confirmed, 9 partly"."""
    judged = [verdict.judgement for verdict in found]
    known = (one for one in get_args(Judgement) if one in judged)
    told = ", ".join(f"{judged.count(one)} {one}" for one in known)
    return told.replace(ANOTHER_RECIPE, f"of {ANOTHER_RECIPE}")


def verdicts(evidence: Evidence) -> Iterator[tuple[Claim, Verdict]]:
    """Every claim with its verdict."""
    for one in CLAIMS:
        yield one, one.verdict(evidence)


CLAIMS = (
    Claim(
        "single-tasks-beat-lstm",
        "abstract",
        "On tasks with a single answer RWA, RDA and GRU learn much faster than the LSTM, and "
        "better.",
        lambda runs: [
            *(runs.ahead(task, OTHERS, ("LSTM",), MUCH) for task in SINGLE),
            *(runs.ahead(task, OTHERS, ("LSTM",)) for task in DIGITS),
        ],
    ),
    Claim(
        "multicopy-three-times",
        "abstract, section 7",
        "On multiple sequence copy the RDA learns three times as fast as LSTM and GRU.",
        lambda runs: [runs.ahead("multicopy", RDAS, (other,), THREE) for other in ("LSTM", "GRU")],
    ),
    Claim(
        "rwa-fails-multicopy",
        "abstract, section 7",
        "The RWA does not learn multiple sequence copy at all.",
        lambda runs: [runs.fails("multicopy", "RWA")],
        rwa_as_printed,
    ),
    Claim(
        "relu-fails",
        "section 6.2",
        "With ReLU as f_a training almost always fails.",
        lambda runs: [
            almost_always(
                [
                    runs.activation_fails(task, unit)
                    for task in ACTIVATION_TASKS
                    for unit in ("RDA-relu-tanh", "RDA-relu-id")
                ]
            )
        ],
        relu_as_printed,
    ),
    Claim(
        "softplus-more-stable",
        "section 6.2",
        "Softplus is much more stable than ReLU.",
        lambda runs: [
            runs.fewer_fail(task, f"RDA-softplus-{end}", f"RDA-relu-{end}")
            for task in ACTIVATION_TASKS
            for end in ("tanh", "id")
        ],
        softplus_as_printed,
    ),
    Claim(
        "softplus-behind",
        "section 6.2",
        "Softplus does not do as well as sigmoid or exponential attention.",
        lambda runs: [
            runs.activation_ahead(task, unit, f"RDA-softplus-{end}")
            for task in ACTIVATION_TASKS
            for unit in RDAS
            for end in ("tanh", "id")
        ],
    ),
    Claim(
        "exp-with-tanh",
        "section 6.2",
        "Exponential attention works best with tanh at the output.",
        lambda runs: [
            runs.activation_ahead(task, "RDA-exp-tanh", "RDA-exp-id") for task in ACTIVATION_TASKS
        ],
    ),
    Claim(
        "sigmoid-with-identity",
        "section 6.2",
        "Sigmoid attention works best with the identity at the output.",
        lambda runs: [
            runs.activation_ahead(task, "RDA-sigmoid-id", "RDA-sigmoid-tanh")
            for task in ACTIVATION_TASKS
        ],
    ),
    Claim(
        "exp-tanh-faster",
        "section 6.2",
        "RDA-exp-tanh often trains faster than RDA-sigmoid-id.",
        lambda runs: [
            often([runs.ahead(task, RDAS[:1], RDAS[1:]) for task in (*SINGLE, "multicopy")])
        ],
    ),
    Claim(
        "sigmoid-id-better",
        "section 6.2",
        "RDA-sigmoid-id tends to end better than RDA-exp-tanh.",
        lambda runs: [mostly([runs.ahead(task, RDAS[1:], RDAS[:1]) for task in (*DIGITS, TEXT)])],
    ),
    Claim(
        "rda-retains-strength",
        "section 6, second question",
        "The RDA keeps the RWA's strength on tasks with a single answer: it learns them too.",
        lambda runs: [runs.learns(task, unit) for task in (*SINGLE, *DIGITS) for unit in RDAS],
    ),
    Claim(
        "rda-solves-consecutive",
        "section 6, third question",
        "On consecutive tasks the RWA struggles, and the RDA solves the problem.",
        lambda runs: [
            *(runs.learns("multicopy", unit) for unit in RDAS),
            runs.ahead("multicopy", RDAS, ("RWA",), MUCH),
        ],
    ),
    Claim(
        "rwa-quick-on-single",
        "section 7",
        "The RWA learns tasks with a single answer quickly; the RDA learns them more slowly.",
        lambda runs: [runs.ahead(task, ("RWA",), RDAS) for task in SINGLE],
    ),
    Claim(
        "rda-generalises-better",
        "section 7",
        "The RDA generalises better than the RWA on the MNIST test sets.",
        lambda runs: [runs.ahead(task, RDAS, ("RWA",)) for task in DIGITS],
    ),
    Claim(
        "lstm-slowest",
        "section 7",
        "The LSTM is the slowest on tasks with a single answer, and often does not learn them at "
        "all.",
        lambda runs: [
            *(runs.ahead(task, OTHERS, ("LSTM",)) for task in SINGLE),
            often([runs.fails(task, "LSTM") for task in (*SINGLE, *DIGITS)]),
        ],
    ),
    Claim(
        "lstm-solves-multicopy",
        "section 7",
        "The LSTM solves multiple sequence copy, slowly beside the RDA.",
        lambda runs: [
            runs.learns("multicopy", "LSTM"),
            runs.ahead("multicopy", RDAS, ("LSTM",), MUCH),
        ],
    ),
    Claim(
        "gru-often-fastest",
        "section 7",
        "The GRU is often the fastest on tasks with a single answer.",
        lambda runs: [
            often([runs.ahead(task, ("GRU",), (*RDAS, "RWA", "LSTM")) for task in SINGLE])
        ],
    ),
    Claim(
        "gru-generalises",
        "section 7",
        "The GRU generalises excellently on the MNIST test sets: as well as in the paper.",
        lambda runs: [runs.as_good(task, "GRU") for task in DIGITS],
    ),
    Claim(
        "gru-equals-lstm",
        "section 7",
        "On multiple sequence copy GRU and LSTM do equally well.",
        lambda runs: [runs.alike("multicopy", "GRU", "LSTM")],
    ),
    Claim(
        "rda-before-rwa",
        "section 8",
        "In almost all cases the RDA is to be preferred to the RWA.",
        lambda runs: [
            almost_always(
                [
                    runs.one_ahead(task, RDAS, "RWA")
                    for task in (*SINGLE, *DIGITS, "multicopy", TEXT)
                ]
            )
        ],
    ),
    Claim(
        "attention-has-to-grow",
        "section 4, Lemma 1",
        "To output c and -c in turn, the attention of an RWA has to grow without end; that of an "
        "RDA need not.",
        attention_has_to_grow,
    ),
    Claim(
        "rwa-cannot-alternate",
        "section 4, Corollary 2",
        "With bounded attention an RWA cannot go on giving c and -c in turn.",
        rwa_cannot_alternate,
    ),
    Claim(
        "lstm-best-on-wikipedia",
        "abstract, section 7",
        "On Wikipedia the LSTM is best, closely followed by the RDA.",
        lambda runs: [
            runs.ahead(TEXT, ("LSTM",), OTHERS),
            *(runs.close_behind(TEXT, unit, "LSTM", CLOSE) for unit in RDAS),
        ],
    ),
    Claim(
        "rda-before-gru-on-wikipedia",
        "section 7",
        "On Wikipedia the RDA is better than the GRU, which does well too.",
        lambda runs: [
            *(runs.ahead(TEXT, (unit,), ("GRU",)) for unit in RDAS),
            runs.close_behind(TEXT, "GRU", "LSTM", CLOSE),
        ],
    ),
    Claim(
        "rwa-fails-wikipedia",
        "section 7",
        "The RWA does not learn to predict Wikipedia.",
        lambda runs: [runs.fails(TEXT, "RWA")],
    ),
)
