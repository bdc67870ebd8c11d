"""What can be learned from tables with unusual values, and what is told of them before training."""

import re

import pytest
import torch
from made_data import table_rows as rows

from rda.sequences.preparing import MOST_CATEGORIES
from rda.tasks import TaskError
from rda.tasks.own_sequences import OwnSequences

HEAD = "id,t,x,y\n"


def write(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text(content)
    return path


def opened(path, **settings):
    """As `rda train` opens it: the source, and what is told of it in one line each."""
    source = OwnSequences(data=str(path), **settings).open(torch.device("cpu"))
    assert torch.isfinite(source._inputs).all()
    told = source.told()
    assert all(line.isprintable() for line in told)
    return source, "\n".join(told)


OPENED = {
    "one row": (HEAD + "1,1,1,1\n", "got 1; name a column that tells several apart"),
    "one class": (HEAD + rows(y=lambda i, t: 0), "one class in the training part"),
    "an input without values": (HEAD + rows(x=lambda i, t: ""), "x has no value"),
    "an infinite input": (HEAD + rows(x=lambda i, t: "-inf"), "x has no value"),
    "marks for missing values": (HEAD + rows(x=lambda i, t: "1e308"), "x has no value"),
    "no answer": (HEAD + rows(y=lambda i, t: ""), "y has no answer"),
    "infinite answers": (HEAD + rows(y=lambda i, t: "inf"), "y has no answer"),
    "as many classes as sequences": (HEAD + rows(y=lambda i, t: f"w{i}"), "no class has three"),
    "too many classes": (
        "id,x,y\n" + "".join(f"{i},{i % 2},w{i // 3}\n" for i in range(3_003)),
        "y has 1,001 different labels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPENED)
def test_a_table_that_nothing_can_be_learned_from_gives_one_line(tmp_path, name):
    content, message = OPENED[name]
    with pytest.raises(TaskError, match=message) as caught:
        opened(write(tmp_path, content))
    assert str(caught.value).isprintable()


TOLD = {
    "missing and infinite": (rows(x=lambda i, t: ["nan", "inf", "1e400", i][t]), r"x \(75.0%\)"),
    "a constant": (rows(x=lambda i, t: 5), "1 column: x"),
    "wide numbers": (rows(x=lambda i, t: ["1e99", "-1e99", "5e-324", "0"][t]), "1 column: x"),
    "tiny answers": (rows(y=lambda i, t: f"{i}.3e-322"), "a number for each sequence"),
    "wide answers": (rows(y=lambda i, t: f"{i}.3e98"), "a number for each sequence"),
    "some answers": (rows(y=lambda i, t: i % 2 if i % 3 else ""), "7 answers of y missing"),
    "an answer at one step": (rows(y=lambda i, t: i % 2 if t == 2 else ""), "each sequence, y: 0"),
    "labels beyond floats": (rows(y=lambda i, t: 10**18 + i % 2), "a number for each sequence"),
    "a target among inputs": (rows(x=lambda i, t: i % 2), "warning: x tells y exactly"),
    "its opposite": (rows(lambda i, t: -3 * i - 0.5, lambda i, t: i + 0.5), "x tells y exactly"),
    "numbers and a word": (rows(x=lambda i, t: i if i else "off"), "numbers, but also 'off'"),
    "decimal commas": (rows(x=lambda i, t: f'"{i},{t}"'), "numbers with a comma, such as '0,0'"),
    "words": (rows(x=lambda i, t: f"w{4 * i + t}"), "1 column: x"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_is_unusual_is_told(tmp_path, name):
    content, message = TOLD[name]
    _, told = opened(write(tmp_path, HEAD + content))
    assert re.search(message, told), told


def test_a_column_of_texts_is_told(tmp_path):
    content = "id,t,x,y\n" + "".join(f"{i},0,word {i},{i % 2}\n" for i in range(150))
    source, told = opened(write(tmp_path, content))
    assert f"150 different words, of which the first {MOST_CATEGORIES} are told apart" in told
    assert source.preparation.width == MOST_CATEGORIES


def test_names_that_a_terminal_would_obey(tmp_path):
    path = write(tmp_path, "id,t,\x1b[31mx,y\n" + rows(y=lambda i, t: f"\x1b]0;{'ab'[i % 2]}\x07"))
    source, told = opened(path)
    assert source.classes == ("\x1b]0;a\x07", "\x1b]0;b\x07")
    assert "\x1b" not in told
