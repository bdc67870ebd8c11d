"""Places that are no files, and files that change while they are read."""

import os
import pathlib

import numpy as np
import pytest

from rda.sequences import SequencesError, read, tables
from rda.sequences.columns import ColumnBuilder
from rda.sequences.roles import Roles
from rda.sequences.stored import read_once

TABLE = "x,z\n" + "1,2\n" * 9


def refused(data, **options):
    with pytest.raises(SequencesError) as caught:
        read(data, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_places_that_are_no_files(tmp_path):
    assert "there is no file in the folder" in refused(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden.csv").write_text(TABLE)
    (tmp_path / "broken.csv").symlink_to("nowhere.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert "there is no file in the folder" in refused(tmp_path)
    for name in ("broken.csv", "loop.csv", "*.csv", "**/*/*/*", "[", "a\nb.csv", "x" * 5000):
        refused(str(tmp_path / name))
    for data in ("\0", None, 5, b"\xff", "~nobody-here/x.csv", np.zeros(3), [1, 2]):
        refused(data)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of Unix")
def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert "neither a file nor a folder" in refused(tmp_path / "a.csv")
    assert "neither a file nor a folder" in refused("/dev/zero")


def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(pathlib.Path, "iterdir", refuse)
    assert "Permission denied" in refused(tmp_path)


def test_folders_and_patterns(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "data.csv").write_text(TABLE)
    found = read(str(tmp_path / "*" / "data.csv"))
    assert found.ids == tuple(str(tmp_path / place / "data.csv") for place in ("a", "b"))
    (tmp_path / "a" / "more.csv").write_text("x,z\n")
    assert "more.csv has no rows" in refused(tmp_path / "a")
    (tmp_path / "a" / "more.csv").write_text("x,other\n1,2\n")
    assert "other columns" in refused(tmp_path / "a")
    (tmp_path / "a" / "more.csv").rename(tmp_path / "a" / "more.ts")
    assert "several kinds: table, ts" in refused(tmp_path / "a")


@pytest.mark.parametrize("later", ["x,z\n1,2\n", TABLE + "1,2\n", "x,z\na,2\n", "y\n1\n", ""])
def test_a_table_that_changes_between_its_two_readings(tmp_path, monkeypatch, later):
    path = tmp_path / "a.csv"
    path.write_text(TABLE)

    class Changing(ColumnBuilder):
        def __init__(self, *arguments):
            path.write_text(later)
            super().__init__(*arguments)

    monkeypatch.setattr(tables, "ColumnBuilder", Changing)
    assert "has changed while it was read" in refused(path) or not later


def test_a_table_that_vanishes(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text(TABLE)

    class Removing(ColumnBuilder):
        def __init__(self, *arguments):
            path.unlink(missing_ok=True)
            super().__init__(*arguments)

    monkeypatch.setattr(tables, "ColumnBuilder", Removing)
    assert "No such file" in refused(path)
    monkeypatch.setattr("rda.sequences.stored.paths_of", lambda data: [path])
    with pytest.raises(SequencesError, match="No such file"):
        read_once(str(path), Roles(), "utf-8")
