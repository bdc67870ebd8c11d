"""What estimators take as X, read as sequences.

A list of arrays, each (time, channels) or (time); an array (sequences, time, channels); or a table
(sequences, time), which is one channel: a column of it is a step.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from rda.sequences import Sequences, SequencesError
from rda.sequences.dataset import from_arrays

ACCEPTED: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""NaN is a value that is missing; infinity is an error."""


def sequences_of(estimator: Any, X: Any, *, reset: bool, fewest_steps: int = 1) -> Sequences:
    """X as sequences. With `reset` the estimator learns what later X must be like, otherwise X is
    compared with that.

    Raises:
        ValueError: X has the wrong shape, holds infinity, or differs from what was fitted.
    """
    if is_list_of_sequences(X):
        found = _listed(X)
    elif dimensions(X) > 3:
        raise ValueError(
            "X should be (sequences, time), (sequences, time, channels) or a list of sequences, "
            f"got {dimensions(X)} dimensions"
        )
    elif dimensions(X) == 3:
        found = from_arrays(check_array(X, allow_nd=True, input_name="X", **ACCEPTED))
    else:
        return _table(estimator, X, reset, fewest_steps)
    channels = len(found.channels)
    if reset:
        estimator.n_features_in_ = estimator.n_channels_in_ = channels
        estimator._fitted_on_table = False
        vars(estimator).pop("feature_names_in_", None)
    _check_channels(estimator, channels)
    return found


def _table(estimator: Any, X: Any, reset: bool, fewest_steps: int) -> Sequences:
    """Rows of equally many steps. Fitted on rows, rows of another length are refused, as
    scikit-learn does with features."""
    known = reset or estimator._fitted_on_table
    options = {**ACCEPTED, "ensure_min_features": fewest_steps}
    if known:
        rows = validate_data(estimator, X, reset=reset, **options)
    else:
        rows = check_array(X, input_name="X", **options)
    if reset:
        estimator.n_channels_in_, estimator._fitted_on_table = 1, True
    _check_channels(estimator, 1)
    return from_arrays(rows)


def _check_channels(estimator: Any, channels: int) -> None:
    if channels != estimator.n_channels_in_:
        raise ValueError(
            f"X has {channels} channels, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_channels_in_}"
        )


def is_list_of_sequences(X: Any) -> bool:
    """Whether X is a list of arrays, or of lists of unequal length; a list of equally long lists
    is a table, as for other estimators."""
    if isinstance(X, np.ndarray):
        return bool(X.dtype == object and X.ndim == 1 and len(X) and np.ndim(X[0]) > 0)
    if not isinstance(X, list | tuple) or not len(X):
        return False
    if all(hasattr(one, "__array__") and getattr(one, "ndim", 0) > 0 for one in X):
        return True
    return all(isinstance(one, list | tuple) for one in X) and len({len(one) for one in X}) > 1


def _listed(X: Iterable[Any]) -> Sequences:
    pieces = []
    for one in X:
        try:
            pieces.append(np.asarray(one, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise SequencesError(f"sequences should be numbers: {error}") from error
    found = from_arrays(pieces)
    if np.isinf(found.values).any():
        raise SequencesError("X contains infinity; NaN says that a value is missing")
    return found


def dimensions(X: Any) -> int:
    """Of an array or what can become one; 0 of what cannot, of which scikit-learn says why."""
    try:
        return int(X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim)
    except ValueError:
        return 0
