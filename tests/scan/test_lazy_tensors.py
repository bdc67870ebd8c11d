"""Tensors whose memory is not what they stand for: negated lazily, zero without storage, freed."""

import forking
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import rda
from rda.functional import LogState, scan

ENGINES = ("cpu", "eager", "reference")


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def negated(tensor):
    """The same values behind torch's negative bit."""
    lazy = torch._neg_view(-tensor)
    assert lazy.is_neg()
    return lazy


def test_an_imaginary_part_of_a_conjugate_is_read_with_its_sign(engine):
    torch.manual_seed(0)
    layer = rda.RDA(3, 4, engine=engine)
    x = torch.randn(5, 2, 3, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert torch.equal(layer(x)[0], layer(x.resolve_neg())[0])


@pytest.mark.parametrize("lazy", ["input", "input alone", "state", "lengths", "weights"])
def test_a_lazy_negation_changes_nothing(engine, lazy):
    torch.manual_seed(0)
    x, weight_hh, weight_ih, bias = (
        torch.randn(5, 2, 3), torch.randn(12, 4), torch.randn(16, 3), torch.randn(16),
    )  # fmt: skip
    state, lengths = LogState(torch.randn(2, 4), torch.randn(2, 4)), torch.tensor([5, 2])

    def run(x, state, lengths, weight_hh, weight_ih, bias):
        x = x.detach().requires_grad_()
        lengths = None if lazy == "input alone" else lengths
        output, final = scan(
            x, weight_hh, state, input_weight=weight_ih, bias=bias, lengths=lengths, engine=engine
        )
        (d_x,) = torch.autograd.grad(output.square().sum() + final.r.sum(), x)
        return output, *final, d_x

    groups = {
        "input": (x,), "state": state, "lengths": (lengths,),
        "weights": (weight_hh, weight_ih, bias),
    }  # fmt: skip

    def arguments(change=""):
        parts = {k: tuple(map(negated, v)) if k in change else v for k, v in groups.items()}
        return *parts["input"], LogState(*parts["state"]), *parts["lengths"], *parts["weights"]

    for found, expected in zip(run(*arguments(lazy)), run(*arguments()), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("cell_class", [rda.RDACell, rda.RWACell])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3)])
def test_a_cell_reads_lazy_negations(monkeypatch, engine, cell_class, shape):
    monkeypatch.setattr(rda.cells, "choose", lambda *_: engine)
    monkeypatch.setattr(rda.repeated, "_kernels", {})  # of other tests
    torch.manual_seed(0)
    cell, x = cell_class(3, 4), torch.randn(shape)
    state = torch.randn(*shape[:-1], 4), torch.rand(*shape[:-1], 4)
    for found, expected in zip(
        cell(negated(x), tuple(map(negated, state))), cell(x, state), strict=True
    ):
        assert torch.equal(found, expected)


def test_a_gradient_that_comes_back_negated_is_read_with_its_sign(engine):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, engine=engine), torch.randn(5, 2, 3)
    output, state = layer(x)
    outputs = (output, *state)
    gradients = [torch.randn_like(part) for part in outputs]
    found, expected = (
        torch.autograd.grad(outputs, list(layer.parameters()), given, retain_graph=True)
        for given in (list(map(negated, gradients)), gradients)
    )
    for mine, wanted in zip(found, expected, strict=True):
        assert torch.equal(mine, wanted)


def run_apart(code):
    """In a process of its own, because what may happen is a segmentation fault."""
    ended, said, complaints = forking.run(["-c", f"import torch, rda\n{code}"])
    assert ended == 0, f"ended with {ended} after {said}{complaints}"


def test_zero_tensors_without_storage_are_zeros():
    run_apart("""
zero, x = torch._efficientzerotensor, torch.randn(5, 2, 3)
for engine in ("cpu", "eager", "reference"):
    layer = rda.RDA(3, 4, engine=engine)
    ones, zeros = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    assert torch.equal(layer(zero((5, 2, 3)))[0], layer(torch.zeros(5, 2, 3))[0])
    assert torch.equal(layer(x, (zero((1, 2, 4)), zero((1, 2, 4))))[0], layer(x)[0])
    assert torch.equal(layer(x, (ones, zero((1, 2, 4))))[0], layer(x, (ones, zeros))[0])
    assert torch.equal(layer(x, (zero((1, 2, 4)), ones))[0], layer(x, (zeros, ones))[0])
cell = rda.RDACell(3, 4)
assert torch.equal(cell(zero((2, 3)), (zero((2, 4)), zero((2, 4))))[0], cell(torch.zeros(2, 3))[0])
""")


def test_freed_memory_raises_and_does_not_crash():
    run_apart("""
def freed(*shape, dtype=None):
    made = torch.ones(shape, dtype=dtype)
    made.untyped_storage().resize_(0)
    return made

from rda.functional import scan
x, projected, w = torch.randn(5, 2, 3), torch.ones(5, 2, 16), torch.randn(12, 4)
cell = rda.RDACell(3, 4)
for engine in ("cpu", "eager", "reference"):
    layer, broken = (rda.RDA(3, 4, engine=engine) for _ in range(2))
    broken.weight_hh_l0.data.untyped_storage().resize_(0)
    calls = {
        "input": lambda: layer(freed(5, 2, 3)),
        "unbatched input": lambda: layer(freed(5, 3)),
        "average": lambda: layer(x, (freed(1, 2, 4), torch.ones(1, 2, 4))),
        "weight": lambda: layer(x, (torch.ones(1, 2, 4), freed(1, 2, 4))),
        "parameter": lambda: broken(x),
        "input of a cell": lambda: cell(freed(2, 3)),
        "state of a cell": lambda: cell(x[0], (freed(2, 4), freed(2, 4))),
        "input of a scan": lambda: scan(freed(5, 2, 16), w, lengths=torch.tensor([5, 2])),
        "state of a scan": lambda: scan(projected, w, (freed(2, 4), freed(2, 4)), engine=engine),
        "lengths": lambda: scan(projected, w, lengths=freed(2, dtype=torch.int64)),
    }
    for title, call in calls.items():
        print(engine, title)
        try:
            call()
        except RuntimeError as error:
            assert "storage" in str(error) or "allocated" in str(error), error
        else:
            raise AssertionError("accepted")
""")


def test_a_packed_sequence_may_be_negated(engine):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, bidirectional=True, engine=engine), torch.randn(5, 2, 3)
    found, expected = (
        layer(pack_padded_sequence(values, [5, 2])._replace(data=change(packed_data(values))))
        for values, change in ((x, negated), (x, lambda data: data))
    )
    assert torch.equal(found[0].data, expected[0].data)


def packed_data(values):
    return pack_padded_sequence(values, [5, 2]).data
