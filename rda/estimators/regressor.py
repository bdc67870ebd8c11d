"""A number for each sequence."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from rda.estimators.base import SequenceEstimator, checked_target
from rda.sequences import Target


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Learns a number for each sequence: `SequenceRegressor().fit(X, y).predict(X)`.

    X, parameters and attributes are those of `SequenceClassifier`, without `balanced` and
    `classes_`. y has a number for each sequence, in any unit: it is standardised by itself.
    """

    _problem = "number"

    def __init__(
        self,
        unit: str = "RDA-exp-tanh",
        *,
        hidden_size: int = 64,
        steps: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 0.003,
        validation: float | Literal["auto"] = "auto",
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
        self.settings = settings
        self.folder = folder
        self.device = device
        self.engine = engine
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "SequenceRegressor":
        """Train a model of sequences X with a number y for each."""
        sequences = self._read_to_fit(X)
        numbers = checked_target(y, sequences, np.float64)
        self._train(replace(sequences, target=Target("target", numbers)))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """(sequences): the number of each."""
        sequences = self._read(X)
        return self.model_.predict(sequences)
