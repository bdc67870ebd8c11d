"""The next values of a series."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_is_fitted

from rda.estimators.base import FEWEST_TO_VALIDATE, USUAL_SHARE, SequenceEstimator
from rda.estimators.inputs import dimensions, is_list_of_sequences
from rda.sequences import Sequences
from rda.sequences.dataset import from_arrays
from rda.sequences.forecasting import next_values


class SequenceForecaster(SequenceEstimator):
    """Forecasts series from their past: `SequenceForecaster(horizon=12).fit(X).predict()`.

    X is one series (time), a table (series, time) of several with one channel, a list of arrays
    (time, channels) of unequal length, or an array (series, time, channels). NaN is a missing
    value.

    Args:
        horizon: how many steps ahead the model is trained to forecast; `predict` can go further.
        window: steps of a series that are trained on at a time.
        validation: the share of the time, at the end of each series, that is not trained on and
            chooses the weights; 0 for none. "auto" is 0.15 where a series has 20 steps or more,
            and 0 otherwise.
        others: as for `SequenceClassifier`.
    """

    _problem = "forecast"
    _own_settings = ("horizon", "window")

    def __init__(
        self,
        unit: str = "RDA-exp-tanh",
        *,
        horizon: int = 1,
        window: int = 200,
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
        self.horizon = horizon
        self.window = window
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

    def fit(self, X: Any, y: Any = None) -> "SequenceForecaster":
        """Train a model of series X; y is not used."""
        form = _Form(X)
        series = self._read_to_fit(form.as_several(X), fewest_steps=self.horizon + 1)
        self._train(series)
        self._series, self._form = series, form
        return self

    def predict(self, X: Any = None, horizon: int | None = None) -> NDArray[np.float64]:
        """The values after the end of each series.

        Args:
            X: series of which the past is known; None for those of `fit`.
            horizon: how many steps to forecast; None for as many as the model was trained for.
                Steps beyond that are forecast from forecasts.

        Returns:
            (horizon) for one series (time), (series, horizon) for a table or a list of series
            (time), (series, horizon, channels) for other X.
        """
        check_is_fitted(self)
        form = self._form if X is None else _Form(X)
        series = self._series if X is None else self._read(form.as_several(X))
        wanted = self.horizon if horizon is None else horizon
        if not isinstance(wanted, int | np.integer):
            raise TypeError(f"horizon should be of type int, got: {wanted!r}")
        if wanted < 1:
            raise ValueError(f"horizon should be 1 or more, got {wanted}")
        return form.fitted_to(self._ahead(series, wanted))

    def score(self, X: Any, y: Any = None) -> float:
        """The coefficient of determination of forecasts, the mean over channels; 1 is the best.

        Args:
            X: series.
            y: the values after their end, in the shape that `predict` returns. Without it the
                forecasts are those after every step of X whose answer is in X too.
        """
        if y is not None:
            predicted = self.predict(X)
            true = check_array(y, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="y")
            channels = self.n_channels_in_
            both = (some.reshape(-1, channels) for some in (true, predicted))
            return float(r2_score(*both))
        series = self._read(_Form(X).as_several(X))
        forecasts = self.model_.predict(series)
        true = next_values(series.values, series.lengths, forecasts.shape[1])
        # Before the first value of a series there is no forecast.
        known = np.isfinite(true) & np.isfinite(forecasts)
        channels = range(true.shape[2])
        scores = [
            r2_score(*(of[..., i][known[..., i]] for of in (true, forecasts))) for i in channels
        ]
        return float(np.mean(scores))

    def _ahead(self, series: Sequences, wanted: int) -> NDArray[np.float64]:
        """(series, wanted, channels); forecasts are appended and read until they are enough."""
        found: list[NDArray[np.float64]] = []
        while sum(part.shape[1] for part in found) < wanted:
            if found:
                pieces = np.split(series.values, series.starts[1:])
                longer = [np.concatenate(both) for both in zip(pieces, found[-1], strict=True)]
                series = from_arrays(longer)
            ends = series.starts + series.lengths - 1
            found.append(self.model_.predict(series)[ends])
        return np.concatenate(found, 1)[:, :wanted]

    def _share_to_validate(self, sequences: Sequences) -> float:
        longest = int(sequences.lengths.max())
        held_out = max(int(longest * USUAL_SHARE), self.horizon)
        if self.validation == "auto" and longest - held_out <= self.horizon:
            return 0.0
        return super()._share_to_validate(sequences)

    def _can_validate(self, sequences: Sequences) -> bool:
        return int(sequences.lengths.max()) >= FEWEST_TO_VALIDATE

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class _Form:
    """Whether X is several series, and whether each has an axis for its channels."""

    def __init__(self, X: Any) -> None:
        if is_list_of_sequences(X):
            self.several, self.has_channels = True, np.ndim(X[0]) == 2
            return
        self.several, self.has_channels = dimensions(X) != 1, dimensions(X) == 3

    def as_several(self, X: Any) -> Any:
        """One series (time) as a list of one; others as they are."""
        if self.several:
            return X
        return [check_array(X, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan")]

    def fitted_to(self, forecasts: NDArray[np.float64]) -> NDArray[np.float64]:
        """(series, horizon, channels) in the form of X."""
        if not self.several:
            return forecasts[0, :, 0]
        return forecasts if self.has_channels else forecasts[:, :, 0]
