"""aeon's own checks of estimators; all of them apply."""

import numpy as np
import pytest
from aeon.testing.estimator_checking import parametrize_with_checks

from rda.estimators import SequenceClassifier, SequenceForecaster
from rda.estimators.for_aeon import AeonClassifier, AeonForecaster, AeonRegressor


@parametrize_with_checks([AeonClassifier, AeonRegressor, AeonForecaster])
def test_a_check_of_aeon_passes(check):
    check()


def test_cases_are_read_as_the_sequences_that_they_are(waves):
    X, y = waves
    inner = SequenceClassifier(hidden_size=8, steps=20, random_state=0)
    outer = AeonClassifier(inner).fit([one.T for one in X], y)
    expected = inner.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(outer.predict_proba([one.T for one in X]), expected)


def test_a_series_is_forecast_in_one_go(series):
    forecaster = AeonForecaster(SequenceForecaster(hidden_size=8, steps=20, random_state=0))
    ahead = forecaster.series_to_series_forecast(series, 5)
    assert ahead.shape == (5,)
    assert AeonForecaster(forecaster.estimator, horizon=5).forecast(series) == pytest.approx(
        ahead[-1]
    )
