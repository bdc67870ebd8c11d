"""Forecasts of series: how far, of what shape, and how good."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from rda.estimators import SequenceForecaster

SMALL = {"hidden_size": 16, "steps": 150, "learning_rate": 0.02, "random_state": 0}


def test_a_season_is_forecast_beyond_its_end(series):
    forecaster = SequenceForecaster(horizon=6, **SMALL).fit(series[:108])
    ahead = forecaster.predict()
    assert ahead.shape == (6,)
    assert np.abs(ahead - series[108:114]).max() < 2
    np.testing.assert_array_equal(forecaster.predict(series[:108]), ahead)
    further = forecaster.predict(horizon=12)
    np.testing.assert_array_equal(further[:6], ahead)
    again = forecaster.predict(np.concatenate([series[:108], ahead]))
    np.testing.assert_allclose(further[6:], again)


def test_forecasts_have_the_form_of_the_series(series):
    table = np.stack([series, series[::-1]])
    forms = [
        (series, (3,)),
        (table, (2, 3)),
        ([series, series[:50]], (2, 3)),
        (table[:, :, None], (2, 3, 1)),
        ([table.T, table[:, :50].T], (2, 3, 2)),
    ]
    for X, shape in forms:
        forecaster = SequenceForecaster(horizon=3, hidden_size=4, steps=5, random_state=0).fit(X)
        assert forecaster.predict().shape == forecaster.predict(X).shape == shape
        further = tuple(7 if size == 3 else size for size in shape)
        assert forecaster.predict(horizon=7).shape == further


def test_a_better_forecast_has_a_better_score(series):
    short, long = (
        SequenceForecaster(horizon=2, **{**SMALL, "steps": steps}).fit(series) for steps in (1, 150)
    )
    assert short.score(series) < long.score(series)
    assert 0.9 < long.score(series) <= 1
    exact = long.predict(series)
    assert long.score(series, exact) == 1.0


def test_a_series_that_begins_with_missing_values_has_a_score(series):
    late = series.copy()
    late[:3] = np.nan
    assert SequenceForecaster(horizon=2, **SMALL).fit(late).score(late) > 0.9


def test_a_grid_is_searched_over_several_series(series):
    several = [series[start:] for start in range(0, 40, 10)]
    forecaster = SequenceForecaster(hidden_size=4, steps=5, random_state=0)
    search = GridSearchCV(forecaster, {"unit": ["RDA", "GRU"]}, cv=2, error_score="raise")
    assert search.fit(several).predict(several).shape == (4, 1)


def test_missing_values_are_read_over(series):
    holes = series.copy()
    holes[5::9] = np.nan
    forecaster = SequenceForecaster(**SMALL).fit(holes)
    assert np.isfinite(forecaster.predict()).all()
    assert forecaster.score(holes) > 0.5


def test_what_is_wrong_with_a_series_is_said(series):
    with pytest.raises(ValueError, match="no series is long enough"):
        SequenceForecaster(horizon=5, steps=2).fit(series[:4])
    with pytest.raises(ValueError, match="horizon should be 1 or more"):
        SequenceForecaster(horizon=0, steps=2).fit(series)
    fitted = SequenceForecaster(hidden_size=4, steps=2).fit(series)
    with pytest.raises(ValueError, match="horizon should be 1 or more"):
        fitted.predict(horizon=0)
    with pytest.raises(ValueError, match="X has 2 channels"):
        fitted.predict([np.zeros((5, 2))])


@pytest.mark.parametrize("horizon", ["3", 2.0])
def test_a_horizon_that_is_no_number_of_steps_is_refused(series, horizon):
    forecaster = SequenceForecaster(hidden_size=4, steps=2, random_state=0).fit(series)
    with pytest.raises(TypeError, match="horizon should be of type int, got: "):
        forecaster.predict(horizon=horizon)
