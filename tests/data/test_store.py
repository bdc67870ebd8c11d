"""Naming a data set gives its verified content, wherever a person keeps it."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from mirror import CONTENTS, IMAGES, LABELS, Page, tiny_dataset, zipped

import rda.data
from rda.data import store
from rda.data.catalogue import DATASETS

TINY = tiny_dataset()
DOTTED = {IMAGES: "train-images.idx3-ubyte", LABELS: "train-labels.idx1-ubyte"}
PACK = {"": lambda content, _: content, ".gz": lambda content, _: gzip.compress(content)}
PACK[".zip"] = zipped


def put(folder, packing="", names=None):
    """Every file of the tiny data set, packed into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in CONTENTS.items():
        spelling = (names or {}).get(name, name)
        (folder / f"{spelling}{packing}").write_bytes(PACK[packing](content, spelling))


@pytest.fixture
def online(mirror):
    """The tiny data set on a mirror that has it."""
    for name, content in CONTENTS.items():
        mirror.pages[f"/{name}.gz"] = Page(gzip.compress(content, mtime=0))
    return tiny_dataset(mirror.url)


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("names", [None, DOTTED], ids=["dashed", "dotted"])
@pytest.mark.parametrize("home", ["", "tiny", "TINY", "TINY/raw", "tiny/raw", "raw"])
def test_a_copy_is_found_in_each_usual_form_and_place(packing, names, home, tmp_path):
    put(tmp_path / home, packing, names)
    assert store.load(TINY, tmp_path) == CONTENTS
    assert [state.state for state in store.check(TINY, tmp_path)] == ["good", "good"]


def test_the_folder_given_comes_before_the_environment_and_that_before_the_cache(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert store.data_folder() == tmp_path / "home" / ".cache" / "rda-torch" / "data"
    monkeypatch.setenv("RDA_CACHE", str(tmp_path / "cache"))
    assert store.data_folder() == tmp_path / "cache" / "data"
    monkeypatch.setenv("RDA_DATA", "~/data")
    assert store.data_folder() == tmp_path / "home" / "data"
    assert store.data_folder(tmp_path / "given") == tmp_path / "given"
    monkeypatch.setenv("RDA_DATA", "")
    assert store.data_folder() == tmp_path / "cache" / "data"


def test_the_data_is_loaded_from_the_folder_the_environment_names(tmp_path, monkeypatch):
    put(tmp_path)
    monkeypatch.setenv("RDA_DATA", str(tmp_path))
    assert store.load(TINY) == CONTENTS


def test_a_person_without_a_home_is_told_what_to_set(monkeypatch):
    def homeless(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(store.DataError, match="set RDA_DATA"):
        store.data_folder()
    with pytest.raises(store.DataError, match="set RDA_DATA"):
        store.data_folder(Path("~/data"))


def test_every_missing_file_is_named_at_once(tmp_path):
    with pytest.raises(store.DataError) as failed:
        store.load(TINY, tmp_path)
    told = str(failed.value)
    assert "\n" not in told
    for needed in (IMAGES, LABELS, str(tmp_path), "RDA_DATA", "--data-dir"):
        assert needed in told


def test_nothing_is_downloaded_that_was_not_asked_for(mirror, online, tmp_path):
    with pytest.raises(store.DataError):
        store.load(online, tmp_path)
    assert [state.state for state in store.check(online, tmp_path)] == ["missing", "missing"]
    assert mirror.asked == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_downloaded_once_when_asked_for(mirror, online, tmp_path):
    (tmp_path / LABELS).write_bytes(CONTENTS[LABELS])
    told = []
    for _ in range(2):
        loaded = store.load(
            online, tmp_path, fetch_missing=True, progress=lambda *step: told.append(step)
        )
        assert loaded == CONTENTS
    assert mirror.asked == [(f"/{IMAGES}.gz", None)]
    assert {name for name, _, _ in told} == {IMAGES}


def test_loading_never_replaces_a_bad_file(mirror, online, tmp_path):
    put(tmp_path, ".gz")
    bad = tmp_path / f"{LABELS}.gz"
    bad.write_bytes(b"mine")
    with pytest.raises(store.DataError) as failed:
        store.load(online, tmp_path, fetch_missing=True)
    assert str(bad) in str(failed.value)
    assert bad.read_bytes() == b"mine"
    assert mirror.asked == []


def test_a_bad_copy_beside_a_good_one_does_no_harm(tmp_path):
    put(tmp_path, ".zip")
    (tmp_path / IMAGES).write_bytes(b"half of i")
    assert store.load(TINY, tmp_path) == CONTENTS


def test_check_tells_each_file_apart(tmp_path):
    put(tmp_path)
    (tmp_path / IMAGES).write_bytes(b"bad")
    (tmp_path / LABELS).unlink()
    images, labels = store.check(TINY, tmp_path)
    assert (images.name, images.state, images.path) == (IMAGES, "bad", tmp_path / IMAGES)
    assert "only 3 bytes" in images.reason
    assert (labels.name, labels.state, labels.path) == (LABELS, "missing", None)
    assert str(tmp_path) in labels.reason


def test_fetch_keeps_what_is_good_and_downloads_the_rest(mirror, online, tmp_path):
    put(tmp_path / "tiny")
    (tmp_path / "tiny" / IMAGES).write_bytes(b"bad")
    fetched = store.fetch(online, tmp_path)
    assert fetched == [tmp_path / f"{IMAGES}.gz", tmp_path / "tiny" / LABELS]
    assert mirror.asked == [(f"/{IMAGES}.gz", None)]
    assert (tmp_path / "tiny" / IMAGES).read_bytes() == b"bad"
    assert store.load(online, tmp_path) == CONTENTS


def test_fetch_replaces_a_bad_download(online, tmp_path):
    put(tmp_path, ".gz")
    (tmp_path / f"{IMAGES}.gz").write_bytes(b"bad")
    told = []
    store.fetch(online, tmp_path, lambda name, *_: told.append(name))
    assert told == [f"{IMAGES} (replacing a bad copy)"]
    assert store.load(online, tmp_path) == CONTENTS


@pytest.mark.parametrize("door", [store.load, store.fetch, store.check])
def test_a_misspelt_data_set_gets_a_hint(door, tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'enwik8'"):
        door("enwiki8", tmp_path)


@pytest.mark.parametrize("name", DATASETS)
def test_the_catalogue_can_be_fetched(name):
    dataset = DATASETS[name]
    assert dataset.name == name
    for file in dataset.files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert len({url.rpartition("/")[2] for url in file.urls}) == 1
        assert file.urls[0].rpartition("/")[2] in (f"{file.name}.gz", f"{file.name}.zip")


def test_the_data_costs_no_import_but_the_standard_library():
    """An empty stand-in for the package itself, so that only these modules are measured."""
    root = Path(rda.data.__file__).parents[1]
    code = f"""
import sys, types
sys.modules["rda"] = package = types.ModuleType("rda")
package.__path__ = [{str(root)!r}]
import rda.data.store
print(*{{name.partition(".")[0] for name in sys.modules}})
"""
    command = [sys.executable, "-I", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not {"torch", "numpy", "rich", "requests"} & set(told.split())
