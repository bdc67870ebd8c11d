"""Texts of a person's own: found, read, cut into streams; and what is said of bad ones."""

import math
import os
from pathlib import Path

import pytest
import torch

from rda.tasks import TaskError
from rda.tasks import text as module
from rda.tasks.text import Text, pieces
from rda.tasks.vocabulary import Vocabulary
from rda.training.building import build_stepper
from rda.training.settings import full_settings, settings_for

CPU = torch.device("cpu")
WORDS = "Der Käse ist müde. " * 200


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(WORDS)
    return path


def opened(path, **settings):
    return Text(file=str(path), **settings).open(CPU)


def whole(source):
    return torch.cat([source.parts[name] for name in ("train", "validation", "test")])


@pytest.mark.parametrize("read_as", ["characters", "bytes"])
def test_a_text_is_read_whole_and_in_order(file, read_as, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)  # some characters lie across the ends of blocks
    source = opened(file, read_as=read_as)
    assert source.vocabulary.decode(whole(source).tolist()) == WORDS.encode()
    assert [len(source.parts[name]) for name in ("validation", "test")] == [
        len(whole(source)) // 20
    ] * 2
    assert "".join(
        part if isinstance(part, str) else part.decode("latin-1")
        for part in pieces([file], read_as)
    ) == (WORDS if read_as == "characters" else WORDS.encode().decode("latin-1"))


def test_a_folder_and_a_pattern_are_all_their_files_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").write_text("no" * 1000)
    (tmp_path / "b" / "2.txt").write_text("two" * 300)
    (tmp_path / "a.txt").write_text("one" * 300)
    for read_as in ("characters", "bytes"):
        source = opened(tmp_path, read_as=read_as)
        text = "one" * 300 + "two" * 300
        assert source.vocabulary.decode(whole(source).tolist()) == text.encode()
    assert [path.name for path in Text(file=f"{tmp_path}/*/*.txt").paths()] == ["2.txt"]


def test_line_ends_and_emoji_are_characters_and_the_mark_at_the_start_is_not(tmp_path):
    path = tmp_path / "text"
    text = "Good \U0001f600 day\r\n" * 100
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    source = opened(path)
    assert source.vocabulary.decode(whole(source).tolist()) == text.encode()


def test_what_is_rare_has_no_number_of_its_own(tmp_path):
    path = tmp_path / "text"
    path.write_text("ab" * 600 + "c")
    source = opened(path)
    assert source.vocabulary == Vocabulary("characters", (ord("a"), ord("b")), has_unknown=True)
    assert whole(source)[-1] == 0


@pytest.mark.parametrize("read_as", ["characters", "bytes"])
def test_chance_is_the_entropy_of_single_symbols(tmp_path, read_as):
    path = tmp_path / "text"
    path.write_text("abac" * 400 + ("x" if read_as == "characters" else ""))
    shares = [800, 400, 400] + [1] * (read_as == "characters")
    total = sum(shares)
    expected = -sum(n / total * math.log2(n / total) for n in shares)
    assert opened(path, read_as=read_as).chance == pytest.approx(expected)


def test_a_text_of_one_character_can_be_read(tmp_path):
    path = tmp_path / "text"
    path.write_text("a" * 2000)
    assert opened(path).chance == 0
    assert len(list(opened(path).evaluation("test", 4))) == 1


def test_many_different_characters_are_told_apart(tmp_path):
    path = tmp_path / "text"
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 700))) * 2
    path.write_text(text)
    source = opened(path)
    assert len(source.vocabulary) == 701
    assert source.vocabulary.decode(whole(source).tolist()) == text.encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a text needs at least 1,000 characters, .*: 0"),
        (b"short", "at least 1,000 characters, .*: 5"),
        (b"good " * 300 + b"\xff" + b"bad " * 300, "is not UTF-8 near byte 1,500: --read-as bytes"),
        (b"good " * 300 + b"\xc3", "is not UTF-8 near byte"),
        (
            "".join(map(chr, range(0x4E00, 0x5E00))).encode(),
            "no character of the text occurs twice",
        ),
    ],
)
def test_a_bad_text_is_one_clear_line(tmp_path, content, said):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(TaskError, match=said):
        opened(path)


def test_bytes_of_any_file_can_be_read(tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(256)) * 10)
    source = opened(path, read_as="bytes")
    assert source.vocabulary.decode(whole(source).tolist()) == bytes(range(256)) * 10


def test_what_is_too_long_for_characters_is_said(file, monkeypatch):
    monkeypatch.setattr(module, "MOST_CHARACTERS", 1200)
    with pytest.raises(TaskError, match=r"3,800 characters are too many .* --read-as bytes"):
        opened(file)
    monkeypatch.setattr(module, "MOST_CHARACTERS", 100)
    with pytest.raises(TaskError, match=r"4,200 bytes are too many .* --read-as bytes"):
        opened(file)


@pytest.mark.parametrize(
    ("file", "said"),
    [("", "text needs a text: --file"), ("nowhere.txt", "there is no file nowhere.txt")],
)
def test_a_missing_text_is_one_clear_line(file, said):
    with pytest.raises(TaskError, match=said):
        Text(file=file).paths()


def test_every_second_pass_comes_to_the_end_of_the_streams(file):
    """3,420 characters in 16 streams of 213: two segments of 100 in each pass."""
    source = opened(file, segment=100)
    stream = source.parts["train"][:214]
    for turn, later in enumerate((0, 13, 0)):
        for start in (later, later + 100):
            assert source.start_of_stream() == (start == later), turn
            batch = source.batch(torch.Generator(), 16)
            assert torch.equal(batch.input[:, 0], stream[start : start + 100].long())
            assert torch.equal(batch.target[:, 0], stream[start + 1 : start + 101].long())


def test_streams_go_on_where_they_were(file):
    source, again = opened(file, segment=100), opened(file, segment=100)
    for _ in range(5):
        again.move_to(source.position())
        assert again.start_of_stream() == source.start_of_stream()
        first, second = (one.batch(torch.Generator(), 16) for one in (source, again))
        assert torch.equal(first.input, second.input)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": 5000}, "batch_size should be 68 or less, or segment smaller"),
        ({"segment": 5000}, "segment should be 3419 or less for this text, got 5000"),
    ],
)
def test_a_batch_that_the_text_cannot_fill_is_refused(file, changes, said):
    settings = settings_for("text", "RWA", True, {"file": str(file), **changes})
    with pytest.raises(TaskError, match=said):
        build_stepper(settings, CPU)


def test_what_cannot_be_read_in_a_folder_is_named(tmp_path):
    (tmp_path / "good.txt").write_text(WORDS)
    os.mkfifo(tmp_path / "pipe")
    assert [path.name for path in Text(file=str(tmp_path)).paths()] == ["good.txt"]
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(TaskError, match="broken cannot be read: No such file"):
        Text(file=str(tmp_path)).paths()


def test_a_home_that_is_not_there():
    with pytest.raises(TaskError, match="there is no file ~nosuch-user/x"):
        Text(file="~nosuch-user/x").paths()


def test_the_schedule_ends_with_the_steps_that_are_asked_for(file):
    def recipe(**changes):
        return settings_for("text", "RWA", False, {"file": str(file), **changes}).recipe

    assert recipe(steps=5000).schedule_steps == 5000
    assert recipe(steps=5000).learning_rate_at(4000) > 0
    assert recipe(schedule="constant").schedule_steps == 0
    assert recipe(schedule_steps=5).warmup_steps < 5
    assert recipe(steps=1).schedule == "constant"


def test_a_large_file_of_bytes_stays_on_the_disk(file, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 10)
    source = opened(file, read_as="bytes")
    assert source.vocabulary.decode(whole(source).tolist()) == WORDS.encode()


def test_an_empty_folder(tmp_path):
    with pytest.raises(TaskError, match="there is no file in"):
        Text(file=str(tmp_path)).paths()


def test_sizes_suit_the_text_unless_they_are_given(tmp_path):
    sizes = {}
    for length in (10_000, 1_000_000, 20_000_000):
        path = tmp_path / f"{length}"
        with path.open("wb") as file:
            file.truncate(length)
        found = settings_for("text", "RDA-exp-tanh", False, {"file": str(path)})
        sizes[length] = found.recipe.hidden_size, found.limits.steps
    assert sizes[10_000] < sizes[1_000_000] < sizes[20_000_000]
    given = {"file": str(path), "hidden_size": 7, "steps": 900}
    found = settings_for("text", "RDA-exp-tanh", False, given)
    assert (found.recipe.hidden_size, found.limits.steps) == (7, 900)
    assert settings_for("text", "GRU", True, {"file": "x"}).recipe.hidden_size == 64
    assert (
        settings_for("copy", "GRU", False, {"delay": 9}).recipe
        == full_settings("copy", "GRU").recipe
    )


class TestVocabulary:
    def test_there_and_back(self):
        words = Vocabulary("characters", tuple(map(ord, "abä")), has_unknown=True)
        assert words.encode("bäz").tolist() == [2, 3, 0]
        assert words.decode([2, 3, 0]).decode() == "bä\ufffd"
        assert words.encode("").tolist() == []
        assert Vocabulary.from_facts(words.facts()) == words

    def test_what_is_not_known_is_named(self):
        with pytest.raises(ValueError, match="the model does not know byte 0x63"):
            Vocabulary("bytes", (97, 98)).encode("abc")
        with pytest.raises(ValueError, match="does not know the character 'z'"):
            Vocabulary("characters", (97, 98)).encode(b"abz")

    def test_what_would_be_refused_can_be_left_out(self):
        assert Vocabulary("bytes", (97, 98)).known(b"abcb\r\n") == b"abb"
        assert Vocabulary("characters", (97, 228)).known("abä") == "aä"
        assert Vocabulary("characters", (97,), has_unknown=True).known("abä") == "abä"

    @pytest.mark.parametrize(
        "facts",
        [
            {"kind": "words", "symbols": [1], "has_unknown": True},
            {"kind": "bytes", "symbols": [256], "has_unknown": True},
            {"kind": "bytes", "symbols": ["a"], "has_unknown": True},
            {"kind": "bytes", "symbols": [1], "has_unknown": 1},
        ],
    )
    def test_what_is_no_vocabulary_is_refused(self, facts):
        with pytest.raises(ValueError, match="not a vocabulary"):
            Vocabulary.from_facts(facts)


@pytest.mark.parametrize("size", [1000, 299_999, 300_000, 2_000_000, 9_999_999, 10**7, 10**9])
def test_the_sizes_in_the_docs_are_those_that_follow_from_the_text(size, monkeypatch):
    monkeypatch.setattr(module, "_size", lambda paths: size)
    monkeypatch.setattr(Text, "paths", lambda self: [])
    preset = Text().suited({})
    recipe, steps = preset.recipe, preset.limits.steps
    passes = min(8 * 0.9 * size / (recipe.batch_size * preset.task.segment), 20_000)
    text, said = {
        128: ("under 300 kB", "2,000"),
        256: ("under 10 MB", "8 passes, at least 2,000 and at most 20,000"),
        512: ("longer", "20,000"),
    }[recipe.hidden_size]
    size_and_rate = recipe.hidden_size, recipe.batch_size, recipe.learning_rate
    row = " | ".join(map(str, (text, *size_and_rate, said)))
    assert f"| {row} |" in (Path(__file__).parents[2] / "docs" / "text.md").read_text()
    if said.startswith("8 passes"):
        assert steps == pytest.approx(max(passes, 2000), rel=0.01)
    else:
        assert f"{steps:,}" == said
