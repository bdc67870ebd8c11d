"""The paper's data sets in a folder: checks what is there, downloads what is missing, reads it.

Whatever is returned has the size and the SHA-256 of the catalogue.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rda.data import archive
from rda.data.catalogue import DATASETS, Dataset, File
from rda.data.download import Progress, download
from rda.data.errors import BY_HAND, BadFileError, DataError
from rda.files import CacheError, cache_folder
from rda.names import look_up

__all__ = ["DataError", "FileState", "Progress", "check", "data_folder", "fetch", "load"]


@dataclass(frozen=True)
class FileState:
    """Whether a folder has a good copy of one file, and if not, why."""

    name: str
    state: Literal["good", "missing", "bad"]
    path: Path | None = None
    reason: str = ""


def data_folder(given: Path | None = None) -> Path:
    """The given folder, or $RDA_DATA, or a folder in the user's cache."""
    named = given or os.environ.get("RDA_DATA")
    try:
        return Path(named).expanduser().absolute() if named else cache_folder() / "data"
    except (CacheError, RuntimeError) as error:
        raise DataError(f"no folder for the data ({error}); set RDA_DATA to one") from error


def load(
    dataset: str | Dataset,
    folder: Path | None = None,
    *,
    fetch_missing: bool = False,
    progress: Progress | None = None,
) -> dict[str, bytes]:
    """The verified content of each file. A bad file is an error; it is never replaced here."""
    dataset, folder = _known(dataset), data_folder(folder)
    found = {file: archive.copies(file, dataset, folder) for file in dataset.files}
    missing = [file for file, paths in found.items() if not paths]
    if missing and not fetch_missing:
        names = ", ".join(file.name for file in missing)
        raise DataError(
            f"{dataset.name} needs {names}: not found in {folder}, neither as such nor as .gz or "
            f".zip; run: rda data fetch {dataset.name}, or {BY_HAND}"
        )
    for file in missing:
        found[file] = [download(file, folder, progress)]
    return {file.name: archive.read_any(paths, file)[1] for file, paths in found.items()}


def fetch(
    dataset: str | Dataset, folder: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """The path of a good copy of each file, downloaded if there is none.

    A bad copy is replaced if it has the name of the download, and `progress` is told so. A bad
    copy under another name is left alone.
    """
    dataset, folder = _known(dataset), data_folder(folder)
    good = []
    for file in dataset.files:
        state = _state(file, dataset, folder)
        kept = state.path if state.state == "good" else None
        good.append(kept or download(file, folder, progress))
    return good


def check(dataset: str | Dataset, folder: Path | None = None) -> list[FileState]:
    """The state of each file in the folder."""
    dataset, folder = _known(dataset), data_folder(folder)
    return [_state(file, dataset, folder) for file in dataset.files]


def _state(file: File, dataset: Dataset, folder: Path) -> FileState:
    paths = archive.copies(file, dataset, folder)
    if not paths:
        return FileState(file.name, "missing", reason=f"not found in {folder}")
    try:
        path, _ = archive.read_any(paths, file)
    except BadFileError as error:
        return FileState(file.name, "bad", error.path, error.reason)
    return FileState(file.name, "good", path)


def _known(dataset: str | Dataset) -> Dataset:
    return dataset if isinstance(dataset, Dataset) else look_up("data set", dataset, DATASETS)
