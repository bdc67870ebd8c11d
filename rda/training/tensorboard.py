"""The metrics of a run as event files for TensorBoard."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from rda.training.listening import Listener
from rda.training.record import TENSORBOARD


class MissingPackageError(ImportError):
    """A package that an option needs is not installed; the message says how to install it."""


def check_tensorboard() -> None:
    """Raise where the package is not installed."""
    if find_spec("tensorboard") is None:
        raise MissingPackageError(
            "--tensorboard needs the package tensorboard: pip install 'rda-torch[tensorboard]'"
        )


class EventFiles:
    """A listener that also writes event files into the run's folder, while the context lasts."""

    def __init__(self, listener: Listener, folder: Path) -> None:
        check_tensorboard()
        self.say = listener.say
        self.began = listener.began
        self.stepped = listener.stepped
        self.sampled = listener.sampled
        self._listener = listener
        self._folder = folder
        self._writer: Any = None

    def __enter__(self) -> "EventFiles":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        """Write one line of the metrics; events of an earlier start after this step are dropped."""
        self._listener.recorded(step, row)
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder / TENSORBOARD), purge_step=step)
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, step)
