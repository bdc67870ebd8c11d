"""A step like an earlier one goes straight to its kernel, and nothing else does."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import rda
from rda import repeated

SHAPES = [(3,), (1, 3), (2, 3), (30, 3)]
CELLS = [rda.RDACell, rda.RWACell]


@pytest.fixture(autouse=True)
def _nothing_seen_yet(monkeypatch):
    monkeypatch.setattr(repeated, "_kernels", {})


def drawn(cell, shape):
    torch.manual_seed(1)
    rows, dtype = shape[:-1], cell.weight_ih.dtype
    state = torch.randn(*rows, 4, dtype=dtype), torch.rand(*rows, 4, dtype=dtype)
    return torch.randn(shape, dtype=dtype), rda.State(*state)


def made(cell_class, **options):
    torch.manual_seed(0)
    return cell_class(3, 4, **options)


def needs_a_compiler(cell, x, state):
    with torch.no_grad():
        cell(x, state)
    if not repeated._kernels:
        pytest.skip("no compiled engine here, so every step takes the long way")


def gradients(cell, x, state):
    x, *state = (tensor.clone().requires_grad_() for tensor in (x, *state))
    average, weight = cell(x, tuple(state))
    loss = (average * torch.linspace(-1, 2, 4)).sum() + weight.sum()
    return torch.autograd.grad(loss, [x, *state, *cell.parameters()])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell_class", CELLS)
def test_it_is_the_step_that_the_long_way_takes(cell_class, shape, dtype, bias):
    cell = made(cell_class, dtype=dtype, bias=bias)
    x, state = drawn(cell, shape)
    before = gradients(cell, x, state)
    repeated._kernels.clear()
    with torch.no_grad():
        first, fresh = cell(x, state), cell(x)
    assert len(repeated._kernels) in (0, 2)  # none without a compiler
    with torch.no_grad():
        for found, expected in ((cell(x, state), first), (cell(x), fresh)):
            assert isinstance(found, rda.State)
            assert found.average.shape == expected.average.shape == (*shape[:-1], 4)
            assert all(map(torch.equal, found, expected))
    assert all(map(torch.equal, gradients(cell, x, state), before))


@pytest.mark.parametrize("cell_class", CELLS)
def test_gradients_are_those_of_the_reference(cell_class):
    cell = made(cell_class, dtype=torch.float64)
    x, state = drawn(cell, (2, 3))
    gradients(cell, x, state)
    found = gradients(cell, x, state)
    slow = made(cell_class, dtype=torch.float64)
    slow.attention = lambda x: torch.exp(x)  # runs in the reference
    for ours, theirs in zip(found, gradients(slow, x, state), strict=True):
        # Two orders of summation, and two forms of the same functions, in float64.
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_smallest_weights_have_finite_gradients():
    cell = made(rda.RDACell, attention="relu")
    x, _ = drawn(cell, (2, 3))
    smallest = torch.finfo(torch.float32).tiny
    weights = torch.tensor([0.9, 1.001, 1.05, 1.2]) * smallest
    for _ in "long", "quick":
        found = gradients(cell, x, (torch.zeros(2, 4), weights.repeat(2, 1)))
        assert all(bool(each.isfinite().all()) for each in found)


def test_torch_func_passes_through_a_state_without_weight():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    zero = torch.zeros(2, 4)

    def step(weight):
        return cell(x, (state.average, weight)).average

    _, tangent = torch.func.jvp(step, (zero,), (torch.ones(2, 4),))
    assert not tangent.any()
    mapped = torch.vmap(lambda x, average, weight: cell(x, (average, weight)).average)
    found = torch.func.grad(lambda weight: mapped(x, state.average, weight).sum())(state.weight)
    expected = torch.func.grad(lambda weight: step(weight).sum())(state.weight)
    torch.testing.assert_close(found, expected)


def test_a_history_without_weight_is_none_and_passes_no_gradient():
    cell = made(rda.RDACell)
    x, _ = drawn(cell, (2, 3))
    weightless = rda.State(torch.zeros(2, 4), torch.tensor([0.0, -0.0, -3.0, 0.0]).repeat(2, 1))
    for _ in "long", "quick":
        with torch.no_grad():
            assert all(map(torch.equal, cell(x, weightless), cell(x)))
        assert not gradients(cell, x, weightless)[2].any()


WRONG = {
    "features": (lambda x, s: (x[:, :2].contiguous(), s), RuntimeError, "input_size"),
    "rank": (lambda x, s: (x[None], s), ValueError, "1D or 2D"),
    "dtype": (lambda x, s: (x.double(), s), ValueError, "float64"),
    "rows of the state": (lambda x, s: (x, rda.State(p[:1] for p in s)), RuntimeError, "average"),
    "no part": (lambda x, s: (x, ()), RuntimeError, "a pair of tensors"),
    "one part": (lambda x, s: (x, s[:1]), RuntimeError, "a pair of tensors"),
    "no tensor": (lambda x, s: (x, (s[0], None)), TypeError, "weight should be a Tensor"),
    "dtype of the state": (lambda x, s: (x, (s[0], s[1].double())), RuntimeError, "float64"),
}


@pytest.mark.parametrize("title", WRONG)
def test_wrong_calls_are_refused_after_right_ones(title):
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    change, error, words = WRONG[title]
    with torch.no_grad():
        for _ in range(2):
            cell(x, state)
        with pytest.raises(error, match=words):
            cell(*change(x, state))


def test_weights_of_another_size_are_noticed():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    needs_a_compiler(cell, x, state)
    cell.weight_hh.data = torch.zeros(12, 3)
    with torch.no_grad(), pytest.raises(RuntimeError, match="recurrent_weight"):
        cell(x, state)


def test_freed_memory_is_refused():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    needs_a_compiler(cell, x, state)
    state.weight.untyped_storage().resize_(0)
    with torch.no_grad(), pytest.raises(RuntimeError, match="storage freed"):
        cell(x, state)


UNUSUAL = {
    "not contiguous": lambda x: x.t().contiguous().t(),
    "negated by a bit": lambda x: torch.complex(torch.zeros_like(x), -x).conj().imag,
    "a subclass": lambda x: x.as_subclass(Tagged),
}


class Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize("title", UNUSUAL)
def test_unusual_tensors_are_read_right(title):
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    with torch.no_grad():
        expected = cell(x, state)
        changed = [UNUSUAL[title](tensor) for tensor in (x, *state)]
        found = cell(changed[0], rda.State(*changed[1:]))
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(torch.Tensor(ours), theirs)


def test_transforms_and_autocast_go_the_long_way():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    with torch.no_grad():
        expected = cell(x, state)
        mapped = torch.vmap(lambda x, *state: cell(x, state))(x, *state)
        _, tangent = torch.func.jvp(lambda x: cell(x, state).average, (x,), (torch.ones_like(x),))
        with torch.autocast("cpu", torch.bfloat16):
            assert cell(x).average.dtype == torch.bfloat16
    for ours, theirs in zip(mapped, expected, strict=True):
        # The reference and the compiled kernel, in float32.
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert bool(tangent.isfinite().all())
    assert bool(tangent.any())


def test_each_part_of_a_state_can_be_changed_in_place():
    cell = made(rda.RDACell)
    for shape in SHAPES:
        x, state = drawn(cell, shape)
        for _ in "long", "quick":
            for part in cell(x, state):
                part.detach_()
                assert not part._is_view()
                assert part.shape == (*shape[:-1], 4)
            with torch.no_grad():
                stepped = cell(x, state)
            scale = torch.ones((), requires_grad=True)
            for part in stepped:
                part.mul_(scale)
                assert torch.autograd.grad(part.sum(), scale)[0] == part.sum()


def test_threads_step_at_the_same_time():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))

    def step(_):
        with torch.no_grad():
            return [cell(x, state) for _ in range(200)]

    expected = step(0)[0]
    with ThreadPoolExecutor(4) as pool:
        for found in itertools.chain.from_iterable(pool.map(step, range(8))):
            assert all(map(torch.equal, found, expected))


def test_inference_mode():
    cell = made(rda.RDACell)
    x, state = drawn(cell, (2, 3))
    with torch.no_grad():
        expected = [cell(x, state) for _ in range(2)]
    with torch.inference_mode():
        found = cell(x, state)
        assert found.average.is_inference()
    assert all(map(torch.equal, found, expected[1]))


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(repeated, "MOST", 3)
    cell = made(rda.RDACell)
    with torch.no_grad():
        for rows in range(1, 9):
            cell(torch.zeros(rows, 3))
            assert len(repeated._kernels) <= 3
