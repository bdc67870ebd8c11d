"""Sequences of unequal length in one padded batch: `lengths`, beside a PackedSequence."""

import io
import itertools

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rda
from rda.scan import engines
from rda.scan.tracing import constant_when_traced

UNITS = ("RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM", "GRU")
LENGTHS = torch.tensor([3, 6, 1, 4])


def parts_of(state):
    return (state,) if isinstance(state, torch.Tensor) else tuple(state)


def make(unit, **options):
    torch.manual_seed(0)
    return rda.build(unit, 3, 5, num_layers=2, bidirectional=True, **options)


def padded(filling=0.0, batch_first=False, longer=2):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6 + longer, 4, 3, generator=generator)
    for k, length in enumerate(LENGTHS):
        x[length:, k] = filling
    return x.transpose(0, 1).contiguous() if batch_first else x


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
def test_lengths_give_what_packing_gives(unit, batch_first, has_state):
    layer, x = make(unit, batch_first=batch_first), padded(torch.nan, batch_first)
    state = None
    if has_state:
        parts = torch.rand(4, 4, 5), torch.rand(4, 4, 5)
        state = parts[0] if unit == "GRU" else parts
    output, final = layer(x, state, lengths=LENGTHS)
    packed = pack_padded_sequence(x, LENGTHS, batch_first, enforce_sorted=False)
    expected, last = layer(packed, state)
    expected, _ = pad_packed_sequence(expected, batch_first, total_length=8)
    # The batch is in another order, and so are a few sums of the products.
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
    for found, wanted in zip(parts_of(final), parts_of(last), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("unit", UNITS)
def test_a_row_with_lengths_is_the_row_alone(unit):
    layer, x = make(unit), padded(7.0)
    output, final = layer(x, lengths=LENGTHS)
    for k, length in enumerate(LENGTHS):
        alone, last = layer(x[:length, k])
        torch.testing.assert_close(output[:length, k], alone, rtol=0, atol=1e-6)
        assert not output[length:, k].any()
        for found, wanted in zip(parts_of(final), parts_of(last), strict=True):
            torch.testing.assert_close(found[:, k], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("unit", UNITS)
def test_padding_gets_no_gradient(unit):
    layer, x = make(unit), padded(3.0).requires_grad_()
    layer(x, lengths=LENGTHS)[0].square().sum().backward()
    for k, length in enumerate(LENGTHS):
        assert not x.grad[length:, k].any()
        assert x.grad[:length, k].all()


@pytest.mark.parametrize(
    ("unit", "engine"),
    [
        *itertools.product(UNITS, ("cpu", "eager", "reference")),
        *itertools.product(("LSTM", "GRU"), ("torch",)),
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [(3, 0), (0, 0), (2, 3)])
def test_padding_of_nan_reaches_no_gradient(unit, engine, batch_first, lengths):
    gradients = []
    for filling in (0.0, torch.nan):
        layer = make(unit, engine=engine, batch_first=batch_first)
        x = torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(1))
        for k, length in enumerate(lengths):
            x[length:, k] = filling
        x = (x.transpose(0, 1) if batch_first else x).contiguous().requires_grad_()
        output, final = layer(x, lengths=torch.tensor(lengths))
        (output.square().sum() + sum(part.sum() for part in parts_of(final))).backward()
        gradients.append([x.grad, *(part.grad for part in layer.parameters())])
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("input", "lengths", "error", "message"),
    [
        (torch.randn(5, 3), torch.tensor([5]), ValueError, "None for unbatched input"),
        (
            pack_padded_sequence(torch.randn(5, 2, 3), [5, 2]),
            torch.tensor([5, 2]),
            ValueError,
            "None for a PackedSequence",
        ),
        (torch.randn(5, 2, 3), torch.tensor([5]), RuntimeError, r"\(2,\), one a row"),
        (torch.randn(5, 2, 3), torch.tensor([6, 2]), ValueError, "from 0 to 5"),
        (torch.randn(5, 2, 3), torch.tensor([5.0, 2.0]), ValueError, "int32 or int64"),
        (torch.randn(5, 2, 3), [5, 2], TypeError, "lengths should be a Tensor"),
    ],
)
def test_wrong_lengths_are_refused_with_the_reason(unit, input, lengths, error, message):
    with pytest.raises(error, match=message):
        make(unit)(input, lengths=lengths)


class Model(nn.Module):
    def __init__(self, unit):
        super().__init__()
        self.layer = make(unit)

    def forward(self, x, lengths):
        return self.layer(x, lengths=lengths)


def batches():
    for time, lengths in ((6, [3, 6, 1, 4]), (9, [9, 0, 2])):
        yield torch.randn(time, len(lengths), 3), torch.tensor(lengths)


@pytest.mark.parametrize("unit", UNITS)
def test_ragged_batches_are_compiled_as_a_whole(unit):
    model = Model(unit)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for x, lengths in batches():
        gradients = []
        for one in (model, compiled):
            model.zero_grad()
            output, final = one(x, lengths)
            (output.square().sum() + parts_of(final)[-1].sum()).backward()
            found = [output, *parts_of(final), *(part.grad for part in model.parameters())]
            gradients.append([part.detach().clone() for part in found])
        for mine, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("unit", ["LSTM", "GRU"])
@pytest.mark.parametrize("has_compiler", [False, True])
def test_a_single_ragged_step_is_compiled_as_a_whole(unit, has_compiler, monkeypatch):
    """Without `lengths` torch's own LSTM and GRU would run these."""
    if not has_compiler:
        missing = "no C++ compiler found"
        monkeypatch.setattr(engines, "_missing_kernel", constant_when_traced(lambda *_: missing))
    layer, lengths = rda.build(unit, 3, 4), torch.tensor([1, 0])
    whole = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(1, 2, 3)
    x[:, 1] = torch.nan
    output, _ = whole(x, lengths=lengths)
    torch.testing.assert_close(output, layer(x, lengths=lengths)[0])
    for gradient in torch.autograd.grad(output.sum(), list(layer.parameters())):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("strict", [False, True])
def test_ragged_batches_are_exported_with_dynamic_shapes(strict):
    model = Model("RDA-exp-tanh")
    shapes = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "lengths": {0: Dim.DYNAMIC}}
    program = torch.export.export(model, next(batches()), dynamic_shapes=shapes, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for x, lengths in batches():
        found, expected = loaded(x, lengths), model(x, lengths)
        assert torch.equal(found[0], expected[0])
        assert all(map(torch.equal, found[1], expected[1]))
