"""Models of text for the commands that use them."""

from rda.training.loading import load
from rda.training.record import Record
from rda.training.resources import find_device
from rda.training.status import RecordError
from rda.training.text_model import TextModel


def load_text_model(record: Record, device: str) -> TextModel:
    """The model of a run that was trained on text.

    Raises:
        RecordError: it was trained on something else.
    """
    model = load(record.folder, device=find_device(device))
    if not isinstance(model, TextModel) and record.settings.task.carries_state:
        raise RecordError(
            f"run {record.name} was trained before vocabularies were saved: --force trains it again"
        )
    if not isinstance(model, TextModel):
        raise RecordError(
            f"run {record.name} was trained on {record.settings.task.name}, and not on text: "
            "give a run of rda train text or rda train wikipedia"
        )
    return model
