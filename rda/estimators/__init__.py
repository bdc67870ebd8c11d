"""Estimators of sequences with scikit-learn's conventions, trained as `rda.train` trains."""

import rda

try:
    from rda.estimators.classifier import SequenceClassifier
    from rda.estimators.forecaster import SequenceForecaster
    from rda.estimators.regressor import SequenceRegressor
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in rda.EXTRA_PACKAGES:
        raise
    raise rda.missing_extra(package) from error

__all__ = ["SequenceClassifier", "SequenceForecaster", "SequenceRegressor"]
