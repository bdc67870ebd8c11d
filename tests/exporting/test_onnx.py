"""An ONNX file computes what its module does: every unit, every choice, every form."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from own_units import HARD, PLAIN, RDAS, Peephole
from random_settings import drawn

import rda
from rda.exporting import onnx_file
from rda.exporting.checking import TOLERANCE, difference, random_inputs, runner_of_module
from rda.exporting.subject import Form, describe
from rda.symbolic.functions import tanh
from rda.units import Part, Unit

HUGE = 1e4
STARTED = Form(with_state=True)
FORMS = {"from the start": Form(), "from a state": STARTED, "one step": Form(one_step=True)}


def compared(layer, form, time, batch, change=None):
    """The largest difference between the file and the layer on one random input."""
    subject = describe(layer, form)
    run = onnx_file.runner(onnx_file.written(subject, form), subject)
    inputs = random_inputs(subject, form, time, batch, torch.Generator().manual_seed(1))
    if change is not None:
        change(inputs)
    with torch.no_grad():
        results = zip(run(inputs), runner_of_module(layer, form)(inputs), strict=True)
        return max(difference(*pair) for pair in results)


@pytest.mark.parametrize("tens", range(20))
def test_two_hundred_random_settings(tens):
    """Each is equal, or is refused in one line."""
    for seed in range(10 * tens, 10 * tens + 10):
        layer, form, time, batch = drawn(seed)
        try:
            found = compared(layer, form, time, batch)
        except rda.ExportError as error:
            assert form.one_step
            assert form.with_lengths or layer.bidirectional
            assert "\n" not in str(error)
        else:
            assert found <= TOLERANCE, (seed, layer, form, found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_one_step_of_one_row_of_every_unit(form, dtype):
    for name, unit in {**PLAIN, **RDAS, **HARD}.items():
        layer = rda.Recurrent(unit, 2, 3, dtype=dtype)
        found = compared(layer, form, time=1, batch=1)
        assert found <= (TOLERANCE if dtype == torch.float32 else 1e-12), name


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_logits_of_ten_thousand(signs, form):
    """Attention and discount of all rows, with and without a history."""
    for attention in ("exp", "relu", "softplus", "sigmoid"):
        layer = rda.RDA(2, 3, attention=attention)
        with torch.no_grad():
            layer.bias_l0[6:9] = HUGE * signs[0]
            layer.bias_l0[9:] = HUGE * signs[1]
        assert compared(layer, form, time=6, batch=2) <= TOLERANCE, attention


@pytest.mark.parametrize("name", [*PLAIN, "RDA-relu-tanh-tanh", "RDA-exp-identity-tanh"])
def test_inputs_of_ten_thousand(name):
    """Every gate of every unit is far out, on both sides."""

    def far_out(inputs):
        inputs["input"] *= HUGE

    layer = rda.Recurrent({**PLAIN, **RDAS}[name], 2, 4)
    assert compared(layer, Form(), time=3, batch=3, change=far_out) <= TOLERANCE


def test_a_state_without_weight_is_no_history():
    def forget(inputs):
        average, weight = inputs["state"]
        inputs["state"] = average, torch.zeros_like(weight)

    layer = rda.RDA(2, 3, 2, attention="relu")
    assert compared(layer, STARTED, time=5, batch=4, change=forget) <= TOLERANCE


def test_a_long_sequence():
    assert compared(rda.RDA(2, 8), Form(), time=2000, batch=1) <= TOLERANCE


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_has_no_influence(bidirectional):
    layer = rda.RDA(2, 3, 2, bidirectional=bidirectional)

    def pad(inputs):
        inputs["lengths"] = torch.tensor([7, 0, 3, 1])
        for row, length in enumerate(inputs["lengths"]):
            inputs["input"][length:, row] = torch.nan

    assert compared(layer, Form(with_lengths=True), 7, 4, pad) <= TOLERANCE
    assert compared(layer, Form(False, True, True), 7, 4, pad) <= TOLERANCE


class Strange(Unit):
    """Parts that are the same for all rows, or no more than what came in; an h that starts at 1."""

    inputs = "a", "b"
    recurrent = ("a", "c")
    state = Part("h", start=1.0), "number", "own", "input"
    weights = ("w",)

    def step(self, x, h, s, w):
        return tanh(x.a + h.a + h.c + s.number), 0 * s.number + 2, 0 * s.own + w.w, x.b


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_parts_that_no_row_or_no_step_changes(form):
    layer = rda.Recurrent(Strange(), 2, 3, 2)
    assert compared(layer, form, time=4, batch=2) <= TOLERANCE


def test_a_unit_of_ones_own_with_two_states_and_weights(tmp_path):
    layer = rda.Recurrent(Peephole(), 3, 5, 2, learn_initial_state=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    written = rda.export(layer, tmp_path / "peephole.onnx", with_state=True)
    assert written.difference <= TOLERANCE
    session = onnxruntime.InferenceSession(written.path)
    names = [each.name for each in session.get_inputs()]
    assert names == ["input", "initial_h", "initial_c"]
    assert [each.name for each in session.get_outputs()] == ["output", "final_h", "final_c"]


@pytest.mark.parametrize("label", ["RDA-exp-tanh", "RWA", "LSTM", "GRU"])
def test_a_stream_of_a_thousand_steps_is_the_whole(label, tmp_path):
    layer = rda.build(label, 3, 6, learn_initial_state=True)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("initial"):
                parameter.normal_()
    path = rda.export(layer, tmp_path / "step.onnx", one_step=True).path
    session = onnxruntime.InferenceSession(path)
    x = torch.randn(1000, 2, 3)
    start = json.loads(session.get_modelmeta().custom_metadata_map["start"])
    state = {name: np.array(values, np.float32) for name, values in start.items()}
    outputs = []
    for step in x.numpy():
        output, *final = session.run(None, {"input": step, **state})
        outputs.append(output)
        state = dict(zip(state, final, strict=True))
    with torch.no_grad():
        expected, expected_final = layer(x)
    assert difference(torch.from_numpy(np.stack(outputs)), expected) <= TOLERANCE
    parts = expected_final if isinstance(expected_final, tuple) else (expected_final,)
    for found, part in zip(final, parts, strict=True):
        assert difference(torch.from_numpy(found), part) <= TOLERANCE


def test_the_file_has_standard_operators_alone_and_any_batch_and_time():
    form = Form(with_state=True, with_lengths=True)
    subject = describe(rda.RDA(2, 3, 2, bidirectional=True, batch_first=True), form)
    model = onnx.load_from_string(onnx_file.written(subject, form))
    assert [(each.domain, each.version) for each in model.opset_import] == [("", onnx_file.OPSET)]
    assert not model.functions
    input, *_, lengths = model.graph.input
    assert [d.dim_param or d.dim_value for d in input.type.tensor_type.shape.dim] == [
        "batch", "time", 2,
    ]  # fmt: skip
    assert lengths.name == "lengths"
    assert {node.op_type for node in model.graph.node} >= {"Scan", "MatMul"}


def test_the_runtime_that_comes_with_onnx_agrees():
    """So that the file rests on the standard, and not on what onnxruntime makes of it."""
    layer = rda.RDA(2, 3, 2, attention="softplus")
    subject = describe(layer, STARTED)
    evaluator = ReferenceEvaluator(onnx.load_from_string(onnx_file.written(subject, STARTED)))
    inputs = random_inputs(subject, STARTED, 4, 3, torch.Generator().manual_seed(1))
    average, weight = inputs["state"]
    given = {"input": inputs["input"], "initial_average": average, "initial_weight": weight}
    with np.errstate(all="ignore"), torch.no_grad():  # of values that Where leaves out
        found = evaluator.run(None, {name: value.numpy() for name, value in given.items()})
        expected = runner_of_module(layer, STARTED)(inputs)
    for one, other in zip(found, expected, strict=True):
        assert difference(torch.from_numpy(one), other) <= TOLERANCE


def test_a_module_in_training_is_exported_as_it_is_evaluated(tmp_path):
    layer = rda.RDA(2, 3, 2, dropout=0.9).train()
    assert rda.export(layer, tmp_path / "layer.onnx").difference <= TOLERANCE
    assert layer.training
    assert layer.engine == "auto"
