"""Answers that need no recurrent unit: what every unit should beat."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rda.sequences.dataset import Counts, Numbers
from rda.sequences.forecasting import blocks
from rda.tasks.own_sequences.source import SequenceSource
from rda.training.outcomes import Outcomes, joined

STEPS = 200
DECAY = 1e-3
LONGEST_SEASON = 400
ALIKE = 0.3
"""The correlation from which a lag is taken for a season."""


def baselines_of(source: SequenceSource) -> dict[str, Outcomes]:
    """The test part as baselines answer it, by name."""
    if source.problem == "forecast":
        return _naive_forecasts(source)
    constant = "the commonest class" if source.classes else "the mean"
    found = {constant: _answered(source, _constant(source))}
    if source.problem in ("label", "number"):
        name = "logistic regression" if source.classes else "linear regression"
        found[f"{name} on simple features"] = _answered(source, _regression(source))
    if source.problem == "numbers":
        found["the value before"] = _value_before(source)
    return found


def _answered(source: SequenceSource, predicted: Numbers) -> Outcomes:
    """With one answer for each sequence of the test part, or one for all."""
    true, piece = _true(source)
    return joined([true], [np.broadcast_to(predicted, true.shape)], [piece])


def _true(source: SequenceSource) -> tuple[Numbers, Counts]:
    """Answers of the test part that are there, and the sequence of each."""
    target, members = source.sequences.target, source.divided.members["test"]
    assert target is not None
    if target.every_step:
        values = target.values[source.sequences.steps_of(members)]
        piece = np.repeat(np.arange(len(members)), source.sequences.lengths[members])
    else:
        values, piece = target.values[members], np.arange(len(members))
    there = np.isfinite(values)
    return values[there], piece[there]


def _constant(source: SequenceSource) -> Numbers:
    known = source.training_answers()
    if source.classes:
        return np.array(float(np.bincount(known.astype(int)).argmax()))
    return np.array(known.mean())


def _features(source: SequenceSource, part: str) -> Tensor:
    """(sequences, features): mean, deviation, extremes, ends and length of each input."""
    rows = []
    inputs = source.preparation.apply(source.sequences.values).astype(np.float64)
    pieces = source.divided.parts[part]
    for start, length in zip(pieces.starts, pieces.lengths, strict=True):
        one = inputs[start : start + length]
        parts = one.mean(0), one.std(0), one.min(0), one.max(0), one[0], one[-1], [np.log(length)]
        rows.append(np.concatenate(parts))
    return torch.from_numpy(np.array(rows))


def _regression(source: SequenceSource) -> Numbers:
    """Linear in simple features, with a penalty, from the training part."""
    train, test = _features(source, "train"), _features(source, "test")
    mean, spread = train.mean(0), train.std(0).clamp(min=1e-9)
    train, test = (train - mean) / spread, (test - mean) / spread
    target, members = source.sequences.target, source.divided.members["train"]
    assert target is not None
    values = torch.from_numpy(target.values[members])
    there = values.isfinite()
    train, values = train[there], values[there]
    kept = np.isfinite(target.values[source.divided.members["test"]])
    weight = torch.zeros(train.shape[1] + 1, max(len(source.classes), 1), dtype=torch.float64)
    centre, unit = (0.0, 1.0) if source.classes else (values.mean(), values.std().clamp(min=1e-12))

    def predict(features: Tensor) -> Tensor:
        return features @ weight[:-1] + weight[-1]

    def loss() -> Tensor:
        if source.classes:
            fit = F.cross_entropy(predict(train), values.long())
        else:
            fit = F.mse_loss(predict(train)[:, 0], (values - centre) / unit)
        return fit + DECAY * weight[:-1].square().sum()

    weight.requires_grad_()
    optimiser = torch.optim.LBFGS([weight], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimiser.zero_grad()
        found = loss()
        found.backward()
        return found.item()

    optimiser.step(closure)
    with torch.no_grad():
        answers = predict(test)
    found = answers.argmax(-1) if source.classes else answers[:, 0] * unit + centre
    predicted: Numbers = found.double().numpy()[kept]
    return predicted


def _value_before(source: SequenceSource) -> Outcomes:
    """The answer of the step before; the mean at the first."""
    target, members = source.sequences.target, source.divided.members["test"]
    assert target is not None
    true, answers, piece = [], [], []
    mean = source.training_answers().mean()
    for number, i in enumerate(members):
        start, length = source.sequences.starts[i], source.sequences.lengths[i]
        values = target.values[start : start + length]
        before = np.concatenate(([mean], np.where(np.isfinite(values), values, mean)[:-1]))
        there = np.isfinite(values)
        true.append(values[there])
        answers.append(before[there])
        piece.append(np.full(int(there.sum()), number))
    return joined(true, answers, piece)


def _naive_forecasts(source: SequenceSource) -> dict[str, Outcomes]:
    """The last value, and the value one season before."""
    season = season_of(source)
    found = {"the last value": _repeated(source, 1)}
    if season > 1:
        found[f"the value {season} steps before"] = _repeated(source, season)
    return found


def season_of(source: SequenceSource) -> int:
    """The lag at which the training part is most like itself again; 1 where none stands out."""
    pieces = source.divided.parts["train"]
    longest = int((pieces.limits - pieces.starts).argmax())
    series = source.last[pieces.starts[longest] : pieces.limits[longest], 0]
    series = series[np.isfinite(series)]
    size = min(len(series) // 2, LONGEST_SEASON)
    if size < 3:
        return 1
    steps = np.arange(len(series))
    level = series - np.polyval(np.polyfit(steps, series, 1), steps)
    if level.std() <= 1e-9 * max(np.abs(series).max(), 1e-300):
        return 1
    level /= level.std()
    alike = np.array([np.mean(level[lag:] * level[:-lag]) for lag in range(1, size + 1)])
    below = np.flatnonzero(alike < 0)  # a level that changes slowly is like itself at small lags
    if not len(below):
        return 1
    later = alike[below[0] :]
    if later.max() <= ALIKE:
        return 1
    # Two seasons before is as much alike as one: the first peak that is nearly as high counts.
    first = int(np.argmax(later > 0.9 * later.max()))
    peak = first + int(later[first : first + max(first, 1)].argmax())
    return int(below[0]) + peak + 1


def _repeated(source: SequenceSource, season: int) -> Outcomes:
    """In the order of `_ahead`: by time, then series, then steps ahead, then columns."""
    pieces, horizon = source.divided.parts["test"], source.horizon
    values = source.sequences.values[:, source.forecast]
    true, answers, piece, column = [], [], [], []
    for number in range(len(pieces.starts)):
        start, limit = int(pieces.starts[number]), int(pieces.limits[number])
        for t in range(start + int(pieces.scored_from[number]), limit):
            for ahead in range(1, min(horizon, limit - 1 - t) + 1):
                back = season * -(-ahead // season)
                known = max(t + ahead - back, start)
                there = np.isfinite(values[t + ahead]) & np.isfinite(source.last[t])
                before = np.where(np.isfinite(values[known]), values[known], source.last[t])
                true.append(values[t + ahead][there])
                answers.append(before[there])
                piece.append(np.full(int(there.sum()), blocks(t - start, number, horizon)))
                column.append(np.flatnonzero(there))
    return joined(true, answers, piece, column)
