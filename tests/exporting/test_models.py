"""Trained models as files: symbols or numbers in, answers at every step or at the end out."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from made_data import waves, write_csv

import rda
from rda.cli import main
from rda.exporting.checking import TOLERANCE, difference
from rda.sequences.understanding import Understanding
from rda.tasks.vocabulary import Vocabulary
from rda.training.model import SequenceModel
from rda.training.text_model import TextModel

SIZES = {"input_size": 5, "output_size": 4}
MODELS = {
    "numbers": SequenceModel("RDA-exp-tanh", 6, **SIZES),
    "one-hot": SequenceModel("RWA", 6, **SIZES, symbolic=True, reads_every_step=True),
    "embedded": SequenceModel("GRU", 6, **SIZES, symbolic=True, embedding_size=3),
    "started": SequenceModel(
        "LSTM", 6, **SIZES, learn_initial_state=True, initial_state_deviation=1.0
    ),
    "text": TextModel("RDA-sigmoid-id", 6, vocabulary=Vocabulary("bytes", tuple(range(97, 123)))),
}


@pytest.mark.parametrize("options", [{}, {"with_state": True}, {"one_step": True}])
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name, options, tmp_path):
    assert rda.export(MODELS[name], tmp_path / "m.onnx", **options).difference <= TOLERANCE


@pytest.mark.parametrize("options", [{}, {"one_step": True}])
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_as_a_program_of_torch(name, options, tmp_path):
    written = rda.export(MODELS[name], tmp_path / "m.pt2", to="torch", **options)
    assert written.difference <= TOLERANCE


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_answers_at_the_end_of_each_row(to, tmp_path):
    model = MODELS["embedded"]
    path = rda.export(model, tmp_path / "m", to=to, with_lengths=True).path
    x, lengths = torch.randint(5, (7, 3)), torch.tensor([7, 1, 4])
    if to == "torch":
        found, _ = torch.export.load(path).module()(x, lengths=lengths)
    else:
        session = onnxruntime.InferenceSession(path)
        found = session.run(["prediction"], {"input": x.numpy(), "lengths": lengths.numpy()})[0]
    with torch.no_grad():
        expected, _ = model(x, lengths=lengths)
    assert difference(torch.as_tensor(found), expected) <= TOLERANCE


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    (folder / "corpus.txt").write_text("She sells sea shells by the sea shore.\n" * 40)
    text = ["text", "RDA-exp-tanh", "--file", str(folder / "corpus.txt"), "--segment", "10"]
    for line in ([*text, "--evaluate-every", "4"], ["multicopy", "LSTM"], ["addition", "RWA"]):
        small = "--small --hidden-size 8 --batch-size 4 --steps 4 --threads 1 --device cpu"
        where = ["--name", line[0], "--runs-dir", str(folder / "runs")]
        assert main(["train", *line, *small.split(), *where]) in (0, 3)
    return folder / "runs"


def export(runs, *line):
    return main(["export", *line, "--runs-dir", str(runs)])


@pytest.mark.parametrize("name", ["text", "multicopy", "addition"])
def test_a_trained_run_through_the_command_line(name, runs, capsys):
    assert export(runs, name, "--to", "onnx") == 0
    told = capsys.readouterr().out
    assert str(runs / name / "model.onnx") in told
    assert "equal to the model to" in told
    model = rda.load(runs / name)
    session = onnxruntime.InferenceSession(runs / name / "model.onnx")
    features = model.unit.input_size if model.symbols is None else model.symbols
    x = torch.randint(features, (9, 2)) if model.symbols else torch.rand(9, 2, features)
    found = session.run(["prediction"], {"input": x.numpy()})[0]
    with torch.no_grad():
        assert difference(torch.from_numpy(found), model(x)[0]) <= TOLERANCE


def test_the_command_writes_where_it_is_told(runs, tmp_path, capsys):
    path = tmp_path / "m.pt2"
    assert export(runs, "addition", "--to", "torch", "-o", str(path), "--with-lengths") == 0
    assert torch.export.load(path) is not None
    assert export(runs, "text", "--one-step") == 0
    assert (runs / "text" / "model-one-step.onnx").is_file()
    session = onnxruntime.InferenceSession(runs / "text" / "model-one-step.onnx")
    vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["vocabulary"])
    assert Vocabulary.from_facts(vocabulary) == rda.load(runs / "text").vocabulary
    start = json.loads(session.get_modelmeta().custom_metadata_map["start"])
    state = {name: np.array(values, np.float32) for name, values in start.items()}
    prediction = session.run(["prediction"], {"input": np.zeros(3, np.int64), **state})[0]
    assert prediction.shape == (3, len(vocabulary["symbols"]) + vocabulary["has_unknown"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["nothing"], "unknown run 'nothing'"),
        (["text", "--to", "tflite"], "unknown --to 'tflite'"),
        (["text", "--with-lengths"], "answers at every step"),
        (["text", "--one-step", "--with-lengths"], "with_lengths should be False"),
        (["text", "-o", "nowhere/at/all.onnx"], "folder that exists"),
    ],
)
def test_wrong_lines_are_told_in_one(line, said, runs, capsys):
    assert export(runs, *line) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_model_of_ones_own_sequences_says_how_its_inputs_are_prepared(tmp_path):
    sequences = waves(40, missing=0.1)
    rda.train(
        "sequences", "RDA", data=write_csv(tmp_path / "a.csv", sequences), steps=5, hidden_size=4,
        folder=tmp_path / "run", progress=False, device="cpu",
    )  # fmt: skip
    model = rda.load(tmp_path / "run")
    rda.export(model, tmp_path / "model.onnx", with_lengths=True)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    told = json.loads(session.get_modelmeta().custom_metadata_map["sequences"])
    assert tuple(told["inputs"]) == model.understanding.preparation.names
    found = Understanding.from_facts(told)
    assert found == model.understanding
    one = sequences.chosen(np.array([3]))
    given = {"input": found.inputs(one)[:, None], "lengths": one.lengths}
    (prediction, *_) = session.run(["prediction"], given)
    assert found.classes[int(prediction[0].argmax())] == model.predict(one)[0]
