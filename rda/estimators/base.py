"""What all estimators of sequences share: their settings, training, and how they are pickled."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from rda.estimators.inputs import sequences_of
from rda.labels import unit_label
from rda.sequences import Sequences
from rda.sequences.stored import held
from rda.settings import LARGEST
from rda.training import by_name, checkpoint
from rda.training.loading import load, model_of
from rda.training.own_model import OwnModel
from rda.training.settings import settings_for, to_table
from rda.training.settings_file import from_table
from rda.training.status import FAILED, INTERRUPTED, Status
from rda.training.unrecorded import train_unrecorded

FEWEST_TO_VALIDATE = 20
"""With fewer sequences, or steps of a series, a share of them says little about weights."""
USUAL_SHARE = 0.15


class SequenceEstimator(BaseEstimator):
    """A unit and a linear readout, trained as `rda.train("sequences", ...)` trains them.

    After `fit` there are these attributes.

    Attributes:
        model_: the trained model (`rda.training.own_model.OwnModel`), on the CPU and in float64:
            what is predicted for a sequence does not depend on those beside it. Predictions are
            faster after `model_.float()`, or `model_.to("cuda")`.
        status_: how training ended: its steps, the step of the best weights, their losses.
        loss_curve_: the loss of each training step.
        n_features_in_: the columns of a table; of other X, the channels.
        n_channels_in_: the channels of a sequence.
    """

    _problem: ClassVar[str]
    _own_settings: ClassVar[tuple[str, ...]] = ()
    """Parameters of a kind of estimator that are settings of the task."""

    unit: str
    hidden_size: int
    steps: int | None
    batch_size: int
    learning_rate: float
    validation: float | Literal["auto"]
    settings: dict[str, Any] | None
    folder: Any
    device: str
    engine: str
    progress: bool
    random_state: Any

    def _read_to_fit(self, X: Any, **options: Any) -> Sequences:
        """X of `fit`; what an earlier one learned is forgotten."""
        self.__dict__.pop("model_", None)
        return sequences_of(self, X, reset=True, **options)

    def _read(self, X: Any) -> Sequences:
        """X of a method other than `fit`."""
        check_is_fitted(self)
        return sequences_of(self, X, reset=False)

    def _train(self, sequences: Sequences) -> None:
        with held(sequences) as name:
            changes = {**self._changes(sequences), "data": name}
            if self.folder is None:
                self._train_in_memory(changes)
            else:
                self._train_on_record(changes)

    def _train_in_memory(self, changes: dict[str, Any]) -> None:
        settings = settings_for("sequences", unit_label(self.unit), False, changes)
        with by_name.watched(settings, self.progress) as listener:
            done = train_unrecorded(
                settings, device=self.device, engine=self.engine, listener=listener
            )
        if done.status.state == INTERRUPTED:
            raise KeyboardInterrupt(done.status.reason)
        _refuse_failure(done.status)
        self._keep(model_of(settings, done.weights, done.facts), done.status)
        self.loss_curve_ = np.array([row["loss"] for row in done.rows if "loss" in row])
        self._settings = to_table(settings)

    def _train_on_record(self, changes: dict[str, Any]) -> None:
        record = by_name.train(
            "sequences", self.unit, folder=self.folder, device=self.device, engine=self.engine,
            progress=self.progress, **changes,
        )  # fmt: skip
        _refuse_failure(record.status)
        self._keep(load(record.folder), record.status)
        self.loss_curve_ = np.array(record.curve("loss")[1])
        self._settings = to_table(record.settings)

    def _keep(self, model: Any, status: Status) -> None:
        assert isinstance(model, OwnModel)
        self.model_ = model.double()
        self.status_ = status

    def _changes(self, sequences: Sequences) -> dict[str, Any]:
        """What is set, in the words of `rda.train`."""
        names = ("hidden_size", "batch_size", "learning_rate", *self._own_settings)
        changes = {name: getattr(self, name) for name in names}
        if self.steps is not None:
            changes["steps"] = self.steps
        changes["problem"] = self._problem
        changes["test"] = 0.0
        changes["validation"] = self._share_to_validate(sequences)
        changes["seed"] = self._seed()
        for name in self.settings or {}:
            if name in {*changes, *self.get_params(deep=False), "data", "target"}:
                raise ValueError(
                    f"settings should not have {name}, which the estimator sets by itself"
                )
        changes |= self.settings or {}
        # A grid of parameters may be of numpy's numbers.
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in changes.items()}

    def _share_to_validate(self, sequences: Sequences) -> float:
        if self.validation != "auto":
            return float(self.validation)
        return USUAL_SHARE if self._can_validate(sequences) else 0.0

    def _can_validate(self, sequences: Sequences) -> bool:
        return len(sequences) >= FEWEST_TO_VALIDATE

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(LARGEST))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        """The model as the bytes of a file of weights: it can be read by later versions."""
        state = dict(super().__getstate__())
        model = state.pop("model_", None)
        if model is not None:
            # They were trained in float32: nothing is lost.
            weights = {name: weight.float() for name, weight in model.state_dict().items()}
            state["_packed"] = checkpoint.pack(weights, {"data": dict(model.facts)})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        packed = state.pop("_packed", None)
        super().__setstate__(state)
        if packed is not None:
            weights, values = checkpoint.unpack(packed)
            model = model_of(from_table(self._settings), weights, values["data"])
            self._keep(model, self.status_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


def _refuse_failure(status: Status) -> None:
    if status.state == FAILED:
        raise RuntimeError(f"training failed: {status.reason}")


def checked_target(y: Any, sequences: Sequences, kind: Any) -> NDArray[Any]:
    """One answer for each sequence, none of them missing."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    values = check_array(y, ensure_2d=False, dtype=kind, input_name="y")
    found: NDArray[Any] = column_or_1d(values, warn=True)
    check_consistent_length(sequences.lengths, found)
    return found
