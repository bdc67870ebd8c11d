"""A mirror for each test, and no proxy on the way to it."""

from collections.abc import Iterator

import pytest
from mirror import Mirror


@pytest.fixture(autouse=True)
def _the_environment_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("RDA_DATA", raising=False)
    monkeypatch.delenv("RDA_CACHE", raising=False)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    server = Mirror()
    yield server
    server.close()
