"""A label for each sequence."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from rda.estimators.base import SequenceEstimator, checked_target
from rda.sequences import Sequences, Target


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
    """Learns a label for each sequence: `SequenceClassifier().fit(X, y).predict(X)`.

    X is a list of arrays (time, channels) of unequal length, an array (sequences, time, channels),
    or a table (sequences, time) of one channel. NaN is a missing value. y has a label for each.

    Args:
        unit: a label such as "RDA-exp-tanh", "RWA", "LSTM"; "RDA" is "RDA-exp-tanh".
        hidden_size: number of recurrent units.
        steps: training steps; None for as many as suit the number of sequences, 600 to 5,000.
        batch_size: number of sequences in a batch.
        learning_rate: Adam's highest learning rate.
        validation: the share of the sequences that is not trained on and chooses the weights; 0
            for none, and the weights of the last step. "auto" is 0.15 from 20 sequences on, and 0
            for fewer.
        balanced: give every class the same weight in the loss, however often it occurs.
        settings: further settings of `rda.train` by name, such as {"weight_decay": 0.01}.
        folder: where the run is recorded, as by `rda.train`; None records nothing.
        device: "cpu", "cuda", ...; "auto" is the GPU where there is one. Predictions are made on
            the CPU.
        engine: the engine of the unit in training, or "auto".
        progress: show a bar with the time left.
        random_state: a seed for weights and order of batches; None draws one.

    Attributes:
        classes_: the labels, sorted. It is there after `fit`, as are those of `SequenceEstimator`.
    """

    _problem = "label"
    _own_settings = ("balanced",)

    def __init__(
        self,
        unit: str = "RDA-exp-tanh",
        *,
        hidden_size: int = 64,
        steps: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 0.003,
        validation: float | Literal["auto"] = "auto",
        balanced: bool = False,
        settings: dict[str, Any] | None = None,
        folder: Any = None,
        device: str = "auto",
        engine: str = "auto",
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.unit = unit
        self.hidden_size = hidden_size
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.balanced = balanced
        self.settings = settings
        self.folder = folder
        self.device = device
        self.engine = engine
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "SequenceClassifier":
        """Train a model of sequences X with a label y for each."""
        sequences = self._read_to_fit(X)
        labels = checked_target(y, sequences, None)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]}: there is nothing to tell apart")
        words = tuple(map(str, self.classes_.tolist()))
        target = Target("target", codes.astype(np.float64), words)
        self._train(replace(sequences, target=target))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(sequences): the most probable label of each."""
        likeliest = self.predict_proba(X).argmax(1)
        found: NDArray[Any] = self.classes_[likeliest]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(sequences, classes): how probable each class is, in the order of `classes_`."""
        sequences = self._read(X)
        return self.model_.predict_proba(sequences)

    def _can_validate(self, sequences: Sequences) -> bool:
        target = sequences.target
        repeated = target is not None and len(target.classes) < len(sequences)
        return repeated and super()._can_validate(sequences)
