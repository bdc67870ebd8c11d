"""The estimators in aeon's classes and layout: (cases, channels, time).

Each takes an estimator of this package and passes cases on to it with their axes exchanged. What
aeon's base classes check, convert and promise is theirs.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import rda
from rda.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor

try:
    from aeon.classification import BaseClassifier
    from aeon.forecasting.base import BaseForecaster, SeriesToSeriesForecastingMixin
    from aeon.regression import BaseRegressor
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in rda.EXTRA_PACKAGES:
        raise
    raise rda.missing_extra(package) from error

COLLECTIONS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "deeplearning",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
}


class AeonClassifier(BaseClassifier):
    """A `SequenceClassifier` as a classifier of aeon.

    Args:
        estimator: with its parameters; None for one with the defaults.
    """

    _tags: ClassVar[dict[str, Any]] = COLLECTIONS

    def __init__(self, estimator: SequenceClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "AeonClassifier":
        given = SequenceClassifier() if self.estimator is None else clone(self.estimator)
        self.estimator_ = given.fit(_time_first(X), y)
        return self

    def _predict(self, X: Any) -> NDArray[Any]:
        return self.estimator_.predict(_time_first(X))

    def _predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self.estimator_.predict_proba(_time_first(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"estimator": SequenceClassifier(hidden_size=4, steps=5)}


class AeonRegressor(BaseRegressor):
    """A `SequenceRegressor` as a regressor of aeon.

    Args:
        estimator: with its parameters; None for one with the defaults.
    """

    _tags: ClassVar[dict[str, Any]] = COLLECTIONS

    def __init__(self, estimator: SequenceRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "AeonRegressor":
        given = SequenceRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_ = given.fit(_time_first(X), y)
        return self

    def _predict(self, X: Any) -> NDArray[np.float64]:
        return self.estimator_.predict(_time_first(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"estimator": SequenceRegressor(hidden_size=4, steps=5)}


class AeonForecaster(SeriesToSeriesForecastingMixin, BaseForecaster):
    """A `SequenceForecaster` as a forecaster of aeon: of one series, `horizon` steps ahead.

    Args:
        estimator: with its parameters, of which `horizon` is not used; None for the defaults.
        horizon: how many steps ahead the one value lies that `predict` gives.
    """

    _tags: ClassVar[dict[str, Any]] = {"capability:missing_values": True}

    def __init__(self, estimator: SequenceForecaster | None = None, horizon: int = 1) -> None:
        self.estimator = estimator
        super().__init__(horizon=horizon, axis=1)

    def _fit(self, y: Any, exog: Any) -> "AeonForecaster":
        self.estimator_ = self._fitted(y, self.horizon)
        return self

    def _predict(self, y: Any, exog: Any) -> float:
        return float(self.estimator_.predict(np.ravel(y))[-1])

    def _series_to_series_forecast(
        self, y: Any, prediction_horizon: int, exog: Any
    ) -> NDArray[np.float64]:
        return self._fitted(y, prediction_horizon).predict()

    def _fitted(self, y: Any, horizon: int) -> SequenceForecaster:
        asked = self.estimator
        given: SequenceForecaster = SequenceForecaster() if asked is None else clone(asked)
        given.set_params(horizon=horizon)
        return given.fit(np.ravel(y))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"estimator": SequenceForecaster(hidden_size=4, steps=5)}


def _time_first(X: Any) -> list[NDArray[Any]]:
    """Each case as (time, channels)."""
    return [np.asarray(case).T for case in X]
