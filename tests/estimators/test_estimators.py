"""Estimators of labels and numbers: what scikit-learn's users do with them."""

import importlib
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import forking
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import rda
from rda.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
from rda.sequences import read, stored
from rda.training.record import Record
from rda.training.settings import settings_for
from rda.training.status import RecordError

SMALL = {"hidden_size": 8, "steps": 60, "learning_rate": 0.02, "random_state": 0}


def test_images_are_told_apart_row_by_row():
    digits = load_digits()
    parts = train_test_split(digits.images, digits.target, random_state=0)
    train, test, train_labels, test_labels = parts
    classifier = SequenceClassifier(steps=400, learning_rate=0.01, random_state=0)
    assert classifier.fit(train, train_labels).score(test, test_labels) > 0.9
    assert classifier.n_features_in_ == 8


def test_sequences_of_unequal_length_are_told_apart_by_words(waves):
    X, y = waves
    classifier = SequenceClassifier(**SMALL).fit(X[:30], y[:30])
    assert classifier.classes_.tolist() == ["fast", "slow"]
    assert classifier.score(X[30:], y[30:]) > 0.9
    probable = classifier.predict_proba(X)
    assert probable.shape == (40, 2)
    np.testing.assert_allclose(probable.sum(1), 1)
    np.testing.assert_array_equal(classifier.classes_[probable.argmax(1)], classifier.predict(X))


def test_a_number_is_learned_in_its_own_unit(waves):
    X, y = waves
    numbers = np.where(y == "slow", 1000.0, 2000.0)
    regressor = SequenceRegressor(**SMALL).fit(X, numbers)
    assert regressor.score(X, numbers) > 0.8
    assert regressor.predict(X).min() > 500


def test_a_label_can_lie_in_what_is_missing():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 6))
    y = np.arange(60) % 2
    X[y == 1, 3] = np.nan
    classifier = SequenceClassifier(**{**SMALL, "steps": 150}).fit(X[:40], y[:40])
    assert classifier.score(X[40:], y[40:]) == 1.0


def test_a_table_is_sequences_of_one_channel():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 7))
    y = (X[:, -1] > 0).astype(int)
    expected = SequenceClassifier(**SMALL).fit(X, y).predict_proba(X)
    for same in (X[:, :, None], list(X), [row[:, None] for row in X]):
        classifier = SequenceClassifier(**SMALL).fit(same, y)
        np.testing.assert_array_equal(classifier.predict_proba(same), expected)
        assert classifier.n_features_in_ == classifier.n_channels_in_ == 1
        shorter = classifier.predict(X[:, :5])  # a length is no feature
        np.testing.assert_array_equal(shorter, classifier.predict(list(X[:, :5])))


@pytest.mark.parametrize("unit", ["RDA-sigmoid-id", "RWA", "LSTM", "GRU"])
def test_every_unit_is_an_estimator(waves, unit):
    X, y = waves
    assert SequenceClassifier(unit, **SMALL).fit(X, y).score(X, y) > 0.8


def test_it_is_the_same_model_as_by_training(waves, tmp_path):
    """The weights to the last digit; predictions are made in float64, and here in float32."""
    X, y = waves
    settings = {"hidden_size": 8, "steps": 40, "learning_rate": 0.003, "batch_size": 32}
    rda.train(
        "sequences", "RDA", data={"X": X, "y": y}, test=0.0, seed=3, folder=tmp_path / "run",
        progress=False, **settings,
    )  # fmt: skip
    model = rda.load(tmp_path / "run")
    for folder in (None, tmp_path / "recorded"):
        found = SequenceClassifier("RDA", **settings, random_state=3, folder=folder).fit(X, y)
        for name, weight in found.model_.state_dict().items():
            assert torch.equal(weight, model.state_dict()[name].double()), name
        assert found.status_.best == Record(tmp_path / "run").status.best
        np.testing.assert_array_equal(found.predict(X), model.predict({"X": X}))
        expected = model.predict_proba({"X": X})
        np.testing.assert_allclose(found.predict_proba(X), expected, rtol=0, atol=1e-5)
    assert rda.load(tmp_path / "recorded").predict({"X": X}).tolist() == found.predict(X).tolist()


def test_the_defaults_are_those_of_training(waves):
    X, y = waves
    with stored.held(read({"X": X * 2, "y": np.tile(y, 2)})) as data:
        recipe = settings_for("sequences", "RDA-exp-tanh", False, {"data": data}).recipe
    for kind in (SequenceClassifier, SequenceRegressor, SequenceForecaster):
        for name in ("hidden_size", "learning_rate", "batch_size"):
            assert getattr(kind(), name) == getattr(recipe, name)


def test_a_recorded_fit_goes_on_and_other_data_is_refused(waves, tmp_path):
    X, y = waves
    classifier = SequenceClassifier(**SMALL, folder=tmp_path / "run").fit(X, y)
    written = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    again = clone(classifier).fit(X, y)
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns == written
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    with pytest.raises(RecordError):
        clone(classifier).fit(X[::-1], y)


def test_a_fit_leaves_nothing_behind(waves, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    held = dict(stored._held)
    X, y = waves
    SequenceClassifier(**SMALL).fit(X, y)
    assert not list(tmp_path.iterdir())
    assert stored._held.keys() == held.keys()


def test_the_same_seed_gives_the_same_model(waves):
    X, y = waves
    first, second, other = (
        SequenceClassifier(**{**SMALL, "random_state": seed}).fit(X, y).predict_proba(X)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    state = np.random.RandomState(5)
    drawn = SequenceClassifier(**{**SMALL, "random_state": state})
    assert not np.array_equal(drawn.fit(X, y).predict_proba(X), drawn.fit(X, y).predict_proba(X))


PREDICT = """
import pickle, sys
import numpy as np
fitted, X = pickle.load(open(sys.argv[1], "rb"))
np.savez(sys.argv[2], *(estimator.predict(X) for estimator in fitted))
"""


def test_a_pickled_estimator_predicts_the_same_in_another_process(waves, tmp_path):
    X, y = waves
    fitted = [
        SequenceClassifier(**SMALL).fit(X, y),
        SequenceRegressor("LSTM", **SMALL).fit(X, np.arange(40.0)),
        SequenceForecaster(**SMALL).fit(X),
    ]
    (tmp_path / "fitted").write_bytes(pickle.dumps((fitted, X)))
    paths = [str(tmp_path / name) for name in ("fitted", "answers.npz")]
    ended, _, complaints = forking.run(["-c", PREDICT, *paths])
    assert ended == 0, complaints
    answers = np.load(tmp_path / "answers.npz")
    for estimator, name in zip(fitted, answers.files, strict=True):
        np.testing.assert_array_equal(answers[name], estimator.predict(X))


def test_a_pickle_holds_no_training_data(waves):
    X, y = waves
    one = len(pickle.dumps(SequenceClassifier(**SMALL).fit(X, y)))
    many = len(pickle.dumps(SequenceClassifier(**SMALL).fit(X * 20, np.tile(y, 20))))
    assert many < one + 5000


def test_a_clone_is_not_fitted_and_has_the_same_parameters(waves):
    X, y = waves
    fitted = SequenceClassifier(**SMALL, settings={"weight_decay": 0.1}).fit(X, y)
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "model_")
    assert copied.set_params(unit="GRU").unit == "GRU"


def test_a_grid_of_parameters_is_searched_over_unequal_sequences(waves):
    X, y = waves
    search = GridSearchCV(
        SequenceClassifier(**SMALL),
        {"hidden_size": np.array([4, 8]), "unit": ["RDA", "LSTM"]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.predict(X[:3]).shape == (3,)


def test_folds_are_fitted_in_two_processes(waves):
    X, y = waves
    scores = cross_val_score(SequenceClassifier(**SMALL), X, y, cv=2, n_jobs=2)
    assert scores.shape == (2,)
    assert scores.min() > 0.8


def test_threads_that_fit_side_by_side_do_not_change_each_others_weights(waves):
    X, y = waves
    given = SequenceClassifier(**{**SMALL, "hidden_size": 64, "steps": 2})
    expected = given.fit(X, y).predict_proba(X)
    with ThreadPoolExecutor(4) as threads:
        fitted = list(threads.map(lambda _: clone(given).fit(X, y), range(12)))
    for one in fitted:
        np.testing.assert_array_equal(one.predict_proba(X), expected)


def test_pipelines_of_tables_and_of_lists(waves):
    X, y = waves
    table = np.stack([one[:8, 0] for one in X])
    scaled = make_pipeline(StandardScaler(), SequenceClassifier(**SMALL)).fit(table, y)
    assert scaled.score(table, y) > 0.8
    first = FunctionTransformer(lambda some: [one[:, :1] for one in some])
    listed = make_pipeline(first, SequenceClassifier(**SMALL)).fit(X, y)
    assert listed.score(X, y) > 0.8


def test_further_settings_are_those_of_training(waves):
    X, y = waves
    classifier = SequenceClassifier(**SMALL, settings={"weight_decay": 0.1}, balanced=True)
    classifier.fit(X, y)
    assert classifier._settings["recipe"]["weight_decay"] == 0.1
    assert classifier._settings["task"]["balanced"] is True
    assert len(classifier.loss_curve_) == classifier.status_.step == 60


GOOD = [np.zeros((3, 2)), np.ones((4, 2)), np.zeros((5, 2)), np.ones((3, 2))]
LABELS = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("parameters", "sequences", "y", "said"),
    [
        ({}, [], [], "1D array|minimum of 1 is required"),
        ({}, [np.zeros((0, 2)), *GOOD[1:]], LABELS, "sequence 0 has no step"),
        ({}, [np.zeros((3, 1)), *GOOD[1:]], LABELS, "equally many channels"),
        ({}, [np.full((3, 2), np.inf), *GOOD[1:]], LABELS, "infinity"),
        ({}, [np.array([["a", "b"]]), *GOOD[1:]], LABELS, "should be numbers"),
        ({}, np.zeros((2, 3, 4, 5)), [0, 1], "or a list of sequences, got 4 dimensions"),
        ({}, GOOD, LABELS[:3], "inconsistent numbers of samples"),
        ({}, GOOD, [1, 1, 1, 1], "one class"),
        ({}, GOOD, [0.5, 1.2, 0.3, 1.7], "continuous"),
        ({"unit": "RDA-exp-tan"}, GOOD, LABELS, "RDA-exp-tanh"),
        ({"settings": {"weight_deca": 1.0}}, GOOD, LABELS, "weight_decay"),
        ({"settings": {"hidden_size": 3}}, GOOD, LABELS, "settings should not have hidden_size"),
        ({"validation": 0.95}, GOOD, LABELS, "validation should be a share"),
        ({"hidden_size": 0}, GOOD, LABELS, "hidden_size should be 1 or more"),
        ({"steps": 2.5}, GOOD, LABELS, "steps should be of type int"),
        ({"steps": "5"}, GOOD, LABELS, "steps should be of type int, got '5'"),
        ({"device": "no such device"}, GOOD, LABELS, "cannot be used"),
    ],
)
def test_what_is_wrong_is_said(parameters, sequences, y, said):
    with pytest.raises((ValueError, TypeError), match=said):
        SequenceClassifier(**{"steps": 2, **parameters}).fit(sequences, y)


def test_a_fit_that_fails_leaves_no_model_of_other_data(waves):
    X, y = waves
    classifier = SequenceClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        classifier.fit(X, ["slow"] * len(X))
    with pytest.raises(NotFittedError):
        classifier.predict(X)


def test_other_channels_than_fitted_are_refused(waves):
    X, y = waves
    classifier = SequenceClassifier(**SMALL).fit(X, y)
    for other in ([one[:, :1] for one in X], np.zeros((3, 5)), np.zeros((3, 5, 1))):
        with pytest.raises(ValueError, match="X has 1 channels, but SequenceClassifier was fitted"):
            classifier.predict(other)


@pytest.mark.parametrize(
    ("hidden", "used"), [("sklearn", "rda.estimators"), ("aeon", "rda.estimators.for_aeon")]
)
def test_what_is_not_installed_is_named(hidden, used, monkeypatch):
    for name in [name for name in sys.modules if name.startswith((used, f"{hidden}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(used)
    assert f"pip install 'rda-torch[{hidden}]'" in str(raised.value)
    assert "\n" not in str(raised.value)
