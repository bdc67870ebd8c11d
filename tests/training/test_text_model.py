"""A model of text: what it writes, how surprised it is, and how it comes back from its run."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

import rda
from rda.analysis.looking import inspect_run
from rda.labels import COMPARED
from rda.tasks.text import Text
from rda.tasks.vocabulary import Vocabulary
from rda.training import checkpoint
from rda.training.one_step import one_step
from rda.training.reading import read_text
from rda.training.record import CHECKPOINTS, MODEL, SAMPLES
from rda.training.status import RecordError
from rda.training.text_model import BLOCK, TextModel, _draw

TEXT = "The quick brown fox jumps over the lazy dog. Größe zählt!\n" * 40
KINDS = {"characters": tuple(sorted(set(map(ord, TEXT)))), "bytes": tuple(range(256))}


def model_of(unit, kind="characters", embedding_size=5):
    torch.manual_seed(3)
    vocabulary = Vocabulary(kind, KINDS[kind], has_unknown=kind == "characters")
    return TextModel(unit, 12, vocabulary=vocabulary, embedding_size=embedding_size).eval()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def train(file, folder, **changes):
    settings: dict[str, object] = {
        "small": True,
        "hidden_size": 8,
        "batch_size": 4,
        "segment": 10,
        "seed": 1,
    }
    settings |= {"steps": 12, "evaluate_every": 4, "progress": False, "device": "cpu"}
    return rda.train("text", "RDA-exp-tanh", file=file, folder=folder, **settings | changes)


@pytest.mark.parametrize("unit", COMPARED)
@pytest.mark.parametrize("embedding_size", [0, 5])
def test_writing_is_what_the_model_predicts_step_by_step(unit, embedding_size):
    model = model_of(unit, embedding_size=embedding_size)
    prompt = "The lazy fox"
    written = model.generate(prompt, 40, temperature=0)
    symbols = model.vocabulary.encode(prompt).unsqueeze(1)
    expected = []
    with torch.no_grad():
        for _ in range(40):
            prediction, _ = model(torch.cat((symbols, torch.tensor(expected).long().view(-1, 1))))
            expected.append(1 + int(prediction[-1, 0, 1:].argmax()))
    assert written == model.vocabulary.decode(expected).decode()


@pytest.mark.parametrize("unit", COMPARED)
def test_writing_begins_with_the_state_that_was_learned(unit):
    torch.manual_seed(3)
    vocabulary = Vocabulary("bytes", KINDS["bytes"], has_unknown=False)
    options = {"learn_initial_state": True, "initial_state_deviation": 2.0}
    model = TextModel(unit, 12, vocabulary=vocabulary, embedding_size=5, **options).eval()
    with torch.inference_mode():
        logits = one_step(model)(65)
        expected, _ = model(torch.tensor([[65]]))
    torch.testing.assert_close(logits, expected[0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_text_and_leaves_other_generators_alone(kind):
    model = model_of("RDA-exp-tanh", kind)
    before = torch.get_rng_state()
    first, again, other = (model.generate("Größe", 300, seed=seed) for seed in (5, 5, 6))
    assert first == again != other
    assert "".join(model.stream("Größe", 300, seed=5)) == first
    assert torch.equal(torch.get_rng_state(), before)
    if kind == "characters":
        assert len(first) == 300


def test_whoever_reads_a_stream_computes_as_before():
    model = model_of("RDA-exp-tanh")
    streams = [model.stream("The", 3, seed=seed) for seed in (1, 2)]
    for stream in streams:
        next(stream)
        assert not torch.is_inference_mode_enabled()
    for stream in streams:
        stream.close()
    assert not torch.is_inference_mode_enabled()


def test_a_symbol_is_written_by_one_thread_and_the_callers_threads_stay():
    model, seen = model_of("RDA-exp-tanh"), []
    model.readout.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for _ in model.stream("The", 5, seed=1):
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen[-5:] == [1] * 5


def test_without_a_prompt_a_text_begins_as_after_a_line():
    model = model_of("GRU")
    assert model.generate(length=9, seed=0) == model.generate("\n", 9, seed=0)
    model.vocabulary = Vocabulary("characters", tuple(range(97, 97 + len(model.vocabulary))))
    assert len(model.generate(length=9, seed=0)) == 9


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0}, {"temperature": 5.0}, {"top_p": 0.1}], ids=str
)
def test_what_is_unknown_is_never_written(options):
    model = model_of("GRU")
    with torch.no_grad():
        model.readout.bias[0] = 50.0  # by far the likeliest
    assert "\ufffd" not in model.generate("The", 200, seed=1, **options)
    assert "\ufffd" not in "".join(model.stream("The", 200, seed=1, **options))


def test_draws_follow_the_probabilities():
    logits = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125]))
    draws = [(index + 0.5) / 1000 for index in range(1000)]
    for temperature, top_p, expected in (
        (1.0, 1.0, [500, 250, 125, 125]),
        (0.5, 1.0, [727, 182, 45, 46]),
        (1.0, 0.7, [667, 333, 0, 0]),
        (0.0, 1.0, [1000, 0, 0, 0]),
        (1e-300, 1.0, [1000, 0, 0, 0]),
    ):
        counts = torch.zeros(4, dtype=torch.long)
        for draw in draws:
            counts[_draw(logits, temperature, top_p, draw)] += 1
        assert counts.tolist() == pytest.approx(expected, abs=1)


def test_the_last_symbol_is_drawn_although_sums_are_rounded():
    logits = torch.zeros(7)
    assert _draw(logits, 1.0, 1.0, math.nextafter(1.0, 0.0)) == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature should be 0 or more"),
        ({"temperature": math.nan}, "temperature should be 0 or more"),
        ({"top_p": 0}, "top_p should be above 0"),
        ({"top_p": 1.1}, "top_p should be above 0"),
        ({"length": -1}, "length should be 0 or more"),
    ],
)
def test_values_out_of_range_are_named_at_once(options, said):
    with pytest.raises(ValueError, match=said):
        model_of("RWA").stream("a", **options)


@pytest.mark.parametrize("unit", COMPARED)
def test_bits_are_the_same_in_any_pieces_to_the_last_bit(unit):
    model = model_of(unit)
    text = TEXT[: 2 * BLOCK + 37]
    expected = model.bits(text)
    assert expected.shape == (len(text) - 1,)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        cuts = sorted(torch.randint(len(text), (9,), generator=generator).tolist())
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert torch.equal(model.bits(parts), expected)
    assert torch.equal(model.bits(list(text)), expected)


def test_bits_are_those_of_the_model():
    model = model_of("RDA-sigmoid-id")
    symbols = model.vocabulary.encode(TEXT)
    with torch.no_grad():
        prediction, _ = model(symbols[:-1].unsqueeze(1))
    expected = torch.nn.functional.cross_entropy(prediction[:, 0], symbols[1:]) / math.log(2)
    # The same numbers in other blocks; sums of 12 units round at 1e-7 of their size.
    assert model.bits(TEXT).mean() == pytest.approx(expected.item(), rel=1e-5)
    assert model.bits("a").shape == model.bits("").shape == (0,)


def test_a_whole_text_is_read_and_its_beginning_kept():
    model = model_of("RWA")
    found = read_text(model, [TEXT[:700], TEXT[700:] + "\u4e00"], shown=650)
    bits = model.bits(TEXT + "\u4e00")
    assert found.count == len(TEXT)
    assert read_text(model, ["\u4e00\u4e00"]).unknown == 1  # the first one has no value
    assert found.mean == pytest.approx(bits.double().mean().item())
    assert found.unknown == 1
    assert "".join(found.shown) == TEXT[:651]
    assert found.bits == bits[:650].tolist()


@pytest.mark.parametrize("text", ["na\u00efve \u65e5\u672c \U0001f600!", "\u65e5\u672c"])
def test_a_model_of_bytes_is_shown_whole_characters_with_the_bits_of_their_bytes(text):
    model = model_of("RDA-exp-tanh", "bytes")
    found = read_text(model, [text.encode()], shown=100)
    assert found.shown == list(text)
    values, start = model.bits(text), len(text[0].encode())
    for letter, bits in zip(text[1:], found.bits, strict=True):
        length = len(letter.encode())
        expected = values[start - 1 : start - 1 + length].sum().item()
        assert bits == pytest.approx(expected)
        start += length
    assert (found.count, found.more) == (len(text.encode()) - 1, 0)


def test_bytes_that_are_no_characters_keep_their_own_bits():
    model = model_of("RWA", "bytes")
    found = read_text(model, [b"a\xffb\xc3(\xe6\x97"], shown=100)
    assert "".join(found.shown) == "a\ufffdb\ufffd(\ufffd\ufffd"
    assert found.bits == model.bits(b"a\xffb\xc3(\xe6\x97").tolist()


@pytest.mark.parametrize(("shown", "characters"), [(0, 1), (1, 2), (2, 3), (3, 3), (4, 3), (5, 4)])
def test_the_last_character_that_is_shown_is_whole(shown, characters):
    text = "ab\u65e5\u672c"
    found = read_text(model_of("RWA", "bytes"), [text], shown=shown)
    assert "".join(found.shown) == text[:characters]
    assert len(found.bits) == characters - 1
    assert found.more == len(text[characters:].encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_may_be_cut_within_its_characters(kind):
    model = model_of("GRU", kind)
    text = "Gr\u00f6\u00dfe z\u00e4hlt, \u65e5\u672c"
    content = text.encode()
    whole = read_text(model, [text], shown=9)
    for pieces in ([content], [content[i : i + 1] for i in range(len(content))], list(text)):
        assert torch.equal(model.bits(pieces), model.bits(text))
        assert read_text(model, pieces, shown=9) == whole
    with pytest.raises(ValueError, match="unexpected end of data"):
        model_of("GRU").bits([content[:3], "e"])


def test_a_run_gives_back_its_model_with_the_vocabulary(file, tmp_path):
    record = train(file, tmp_path / "run")
    model = rda.load(tmp_path / "run")
    assert isinstance(model, TextModel)
    source = Text(file=str(file)).open(torch.device("cpu"))
    assert model.vocabulary == source.vocabulary
    assert model.generate("The", 20, seed=1) == rda.load(tmp_path / "run").generate(
        "The", 20, seed=1
    )
    lines = (tmp_path / "run" / SAMPLES).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]
    assert record.status.test["test_bits"] < math.log2(len(model.vocabulary))


def test_a_run_without_its_model_has_the_vocabulary_in_the_checkpoint(file, tmp_path):
    train(file, tmp_path / "run")
    expected = rda.load(tmp_path / "run").generate("The", 20, seed=1)
    (tmp_path / "run" / MODEL).unlink()
    with pytest.warns(UserWarning, match="missing or changed"):
        assert rda.load(tmp_path / "run").generate("The", 20, seed=1) == expected


def test_a_run_shorter_than_its_interval_ends_with_bits_and_a_sample(file, tmp_path):
    record = train(file, tmp_path / "run", steps=3)
    (line,) = (tmp_path / "run" / SAMPLES).read_text().splitlines()
    assert json.loads(line)["step"] == 3
    assert record.status.best["validation_bits"] > 0


@pytest.mark.parametrize("first_steps", [3, 6])
def test_stopped_and_continued_it_is_the_same_run(file, tmp_path, first_steps):
    train(file, tmp_path / "whole")
    train(file, tmp_path / "parts", steps=first_steps)
    train(file, tmp_path / "parts")
    for name in ("metrics.jsonl", SAMPLES):
        assert (tmp_path / "parts" / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_damaged_samples_do_not_end_a_run(file, tmp_path):
    train(file, tmp_path / "run", steps=6)
    (tmp_path / "run" / SAMPLES).write_bytes(b"\xff garbage\n[]\n")
    assert train(file, tmp_path / "run").status.step == 12
    lines = (tmp_path / "run" / SAMPLES).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [8, 12]


def test_a_text_that_was_changed_does_not_go_on(file, tmp_path):
    train(file, tmp_path / "run", steps=6)
    inspect_run(tmp_path / "run")
    file.write_text(TEXT.replace("lazy", "busy"))
    told = f"^{file} has changed since run run was begun: bring it back as it was, or train anew"
    with pytest.raises(RecordError, match=told):
        inspect_run(tmp_path / "run")
    with pytest.raises(RecordError, match=told):
        train(file, tmp_path / "run")


def test_a_text_that_has_grown_is_what_is_told_and_not_the_sizes_that_go_with_it(file, tmp_path):
    def train_for_a_moment(**changes):
        quickly = {"minutes": 1e-9, "progress": False, "device": "cpu"}
        rda.train("text", "RWA", **{"file": file, "folder": tmp_path / "run", **quickly, **changes})

    train_for_a_moment()
    with pytest.raises(RecordError, match="run run has hidden_size 128, not 9: rda train"):
        train_for_a_moment(hidden_size=9)
    before = file.stat().st_size
    other = tmp_path / "other.txt"
    other.write_text(TEXT * 150)
    with pytest.raises(RecordError, match=f"run run has file {file}, not {other}; hidden_size 128"):
        train_for_a_moment(file=other)
    file.write_text(TEXT * 150)
    told = f"^{file} has changed since run run was begun, from {before:,} to {150 * before:,} bytes"
    with pytest.raises(RecordError, match=f"{told}: .* another --name or --force$"):
        train_for_a_moment()


def test_a_run_goes_on_where_only_facts_were_added_since(file, tmp_path):
    train(file, tmp_path / "run", steps=6)
    folder = tmp_path / "run" / CHECKPOINTS
    found, _ = checkpoint.load_latest(folder)
    facts = {name: value for name, value in found.values["data"].items() if name != "bytes"}
    checkpoint.clear(folder)
    values = {**found.values, "data": facts}
    checkpoint.save(folder, checkpoint.Checkpoint(found.step, found.tensors, values))
    assert train(file, tmp_path / "run").status.step == 12


@pytest.mark.parametrize("vocabulary", [{"kind": "bytes"}, {**Vocabulary("bytes", (1,)).facts()}])
def test_a_vocabulary_that_does_not_fit_is_refused(file, tmp_path, vocabulary):
    train(file, tmp_path / "run")
    (tmp_path / "run" / MODEL).unlink()
    found, _ = checkpoint.load_latest(tmp_path / "run" / CHECKPOINTS)
    values = {**found.values, "data": {"vocabulary": vocabulary}}
    checkpoint.clear(tmp_path / "run" / CHECKPOINTS)
    checkpoint.save(
        tmp_path / "run" / CHECKPOINTS, checkpoint.Checkpoint(found.step, found.tensors, values)
    )
    with (
        pytest.warns(UserWarning, match="missing or changed"),
        pytest.raises(RecordError, match="the vocabulary of run run"),
    ):
        rda.load(tmp_path / "run")


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "text.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text(TEXT)
    quick = 'folder="runs/mine", steps=4, hidden_size=8, evaluate_every=2, progress=False'
    quick += ', warmup_steps=0, device="cpu"'
    namespace = {}
    exec(code.replace('folder="runs/mine"', quick, 1), namespace)
    assert len(capsys.readouterr().out) > 400
    assert isinstance(namespace["model"], TextModel)
