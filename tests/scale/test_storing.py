"""A run in an object store can be continued from whatever a kill leaves there."""

import shutil
from dataclasses import replace

import pytest
from comparing_records import differences

from rda.scale import storing
from rda.scale.assignment import Assignment, code_version
from rda.scale.storing import RunStore, StoreError, in_store
from rda.scale.working import STARTS_WITHOUT_A_CHECKPOINT, work
from rda.settings import Limits, Recipe
from rda.tasks.addition import Addition
from rda.training.record import Record, write_environment
from rda.training.running import train
from rda.training.settings import RunSettings
from rda.training.settings_file import to_toml

TINY = RunSettings(
    Addition(length=6), "RWA", Recipe(hidden_size=4, batch_size=2), Limits(8, stop_at="never")
)


def assignment(folder, **more):
    return Assignment("one", to_toml(TINY), str(folder), checkpoint_minutes=0.0, **more)


@pytest.fixture
def alone(tmp_path):
    train(TINY, tmp_path / "alone" / "one", device="cpu")
    return tmp_path / "alone"


def test_a_run_in_a_store_is_the_run_in_a_folder(tmp_path, alone):
    store = tmp_path / "store"
    outcome = work(assignment(tmp_path / "unused", store=f"file://{store}"))
    assert outcome.error == ""
    assert differences(alone, store) == []
    home = tmp_path / "home" / "one"
    home.mkdir(parents=True)
    RunStore(f"file://{store}", "one").download(home)
    Record(home).verify()
    assert not (tmp_path / "unused").exists()


def test_whatever_is_uploaded_at_a_kill_can_be_continued(tmp_path, alone, monkeypatch):
    """After every single write the store is copied, as if the node had died there."""
    monkeypatch.setattr(storing, "SECONDS_BETWEEN_UPLOADS", 0.001)
    store, copies = tmp_path / "store", tmp_path / "copies"
    write = RunStore._write
    count = iter(range(10**6))

    def write_and_copy(self, name, content):
        write(self, name, content)
        if self.url.startswith(f"file://{store}/"):
            shutil.copytree(store, copies / f"{next(count):04d}")

    monkeypatch.setattr(RunStore, "_write", write_and_copy)
    assert work(assignment(tmp_path, store=f"file://{store}")).error == ""
    left = sorted(copies.iterdir())
    assert len(left) > 8
    for copy in left:
        outcome = work(assignment(tmp_path, store=f"file://{copy}"))
        assert outcome.error == ""
        assert differences(alone, copy) == []


def test_a_node_that_comes_back_from_the_dead_does_not_write(tmp_path):
    url = f"file://{tmp_path}/store"
    here = in_store(url, "one")
    folder = here.__enter__()
    (folder / "settings.toml").write_text("late")
    RunStore(url, "one").claim()
    with pytest.raises(StoreError, match="trained by another node now"):
        here.__exit__(None, None, None)
    assert not RunStore(url, "one").exists()


def test_a_store_that_nothing_can_reach_is_one_line(tmp_path):
    outcome = work(assignment(tmp_path, store="nowhere://bucket"))
    assert outcome.error.startswith("nowhere://bucket cannot be used:")


def test_a_node_with_other_code_says_so(tmp_path):
    outcome = work(assignment(tmp_path, code="0.1.0 (000000000000)"))
    assert f"has rda {code_version()}, and this command is rda 0.1.0" in outcome.error
    assert not (tmp_path / "one").exists()


def test_a_run_that_never_comes_further_is_given_up(tmp_path):
    limited = replace(TINY, limits=Limits(1, stop_at="never"))
    train(limited, tmp_path / "one", device="cpu")
    write_environment(tmp_path / "one", [{"from_step": 0}] * STARTS_WITHOUT_A_CHECKPOINT)
    assert "started 20 times at step 0" in work(assignment(tmp_path)).error
