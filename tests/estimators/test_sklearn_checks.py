"""scikit-learn's own checks of estimators. Of those that cannot apply the reason is said here and
in docs/estimators.md."""

import re
from pathlib import Path

from sklearn.utils.estimator_checks import parametrize_with_checks

from rda.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor

QUICK = {"hidden_size": 8, "steps": 10}
LEARNS = {
    "check_classifiers_train": {"steps": 60, "learning_rate": 0.02},
    "check_regressors_train": {
        "hidden_size": 16, "steps": 300, "learning_rate": 0.02, "validation": 0.0
    },
}  # fmt: skip
"""For the checks that ask for a score on the data that was fitted."""
CANNOT_APPLY = {
    "SequenceForecaster": {
        "check_fit1d": "one dimension is one series, and not a mistake",
        "check_fit2d_predict1d": "one dimension is one series, and not a mistake",
    }
}


def expected_to_fail(estimator):
    return CANNOT_APPLY.get(type(estimator).__name__, {})


@parametrize_with_checks(
    [SequenceClassifier(**QUICK), SequenceRegressor(**QUICK), SequenceForecaster(**QUICK)],
    expected_failed_checks=expected_to_fail,
)
def test_a_check_of_scikit_learn_passes(estimator, check):
    check(estimator.set_params(**LEARNS.get(check.func.__name__, {})))


def test_the_page_lists_the_checks_that_cannot_apply():
    page = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text()
    named = {(name, check) for name, checks in CANNOT_APPLY.items() for check in checks}
    assert set(re.findall(r"\| `(Sequence\w+)` \| `(check_\w+)` \|", page)) == named
