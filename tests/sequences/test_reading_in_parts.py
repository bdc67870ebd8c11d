"""A table is predicted some sequences at a time, with the answers that it has as a whole."""

import numpy as np
import pytest
from made_data import waves, write_csv

import rda
from rda.sequences import tables
from rda.sequences.reading import read, read_in_parts


def same(parts, whole):
    parts = list(parts)
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), whole.values)
    np.testing.assert_array_equal(np.concatenate([part.lengths for part in parts]), whole.lengths)
    assert tuple(name for part in parts for name in part.ids) == whole.ids
    return len(parts)


@pytest.mark.parametrize("rows", [1, 7, 40, 10**6])
def test_parts_of_a_table_are_the_whole(tmp_path, monkeypatch, rows):
    path = write_csv(tmp_path / "a.csv", waves(30, missing=0.1))
    monkeypatch.setattr(tables, "PART", rows)
    monkeypatch.setattr(tables, "BLOCK", 300)
    parts = same(read_in_parts(path), read(path))
    assert (parts == 1) == (rows == 10**6)


def test_each_file_of_a_folder_is_a_sequence(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PART", 5)
    for name in "abcdef":
        rows = "".join(f"{t},{ord(name) + t * t}\n" for t in range(4))
        (tmp_path / f"{name}.csv").write_text("t,x\n" + rows)
    assert same(read_in_parts(tmp_path), read(tmp_path)) > 1


def test_rows_that_do_not_stand_together_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PART", 1)
    path = tmp_path / "mixed.csv"
    path.write_text("id,x\n" + "".join(f"{t % 3},{t * t}\n" for t in range(30)))
    assert same(read_in_parts(path), read(path)) == 1


def test_predictions_do_not_depend_on_parts(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "a.csv", waves(40))
    rda.train(
        "sequences", "RWA", data=path, steps=5, hidden_size=4, folder=tmp_path / "run",
        progress=False, device="cpu",
    )  # fmt: skip
    model = rda.load(tmp_path / "run")
    whole = model.predict_proba(path)
    monkeypatch.setattr(tables, "PART", 20)
    monkeypatch.setattr(tables, "BLOCK", 300)
    # Another number of rows beside a sequence may round differently.
    np.testing.assert_allclose(model.predict_proba(path), whole, rtol=1e-5)
    assert len(list(model.answers(path))) > 3
