"""Every faster engine equals the reference: outputs, states, every gradient."""

import copy
import itertools
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils.rnn import pack_sequence

import rda
from rda.activations import ATTENTION, Choices
from rda.functional import LogState, scan
from rda.scan import dispatch
from rda.scan.op import scan_backward_op, scan_op
from rda.scan.products import recurrent_gradient

ENGINES = ("cpu", "eager")
RDA_EXP_TANH, RDA_SIGMOID_ID = Choices(), Choices("sigmoid", "identity", "identity")
RWA = Choices("exp", "tanh", "identity", discount=False)

# float32 has 6e-8; each step adds the rounding of a sum over the units (a few 1e-7 at 257 of
# them) and the average forgets it at the pace at which it forgets. Gradients run through the
# same sums twice. Errors are norms over the whole tensor, against float64.
FORWARD, GRADIENT = 2e-6, 1e-5


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def problem(choices, time, batch, units, features=3, seed=0):
    """Tensors of a layer: x, its weights as section 6.1 draws them, and a state."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, scale=1.0):
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale

    tensors = {
        "input": draw(time, batch, features),
        "input_weight": draw(choices.input_blocks * units, features, scale=features**-0.5),
        "bias": draw(choices.input_blocks * units, scale=0.5),
        "recurrent_weight": draw(choices.recurrent_blocks * units, units, scale=0.7 * units**-0.5),
        "r": draw(batch, units),
        "l": draw(batch, units),
    }
    if choices.attention == "relu":
        # On ReLU's kink a rounding decides whether a step counts: keep every logit off it.
        attention = slice(2 * units, 3 * units)
        side = torch.where(tensors["bias"][attention] > -0.3, 1.0, -1.0)
        tensors["bias"][attention] = 4.0 * side
        tensors["input_weight"][attention] *= 0.1
        tensors["recurrent_weight"][units : 2 * units] *= 0.1
    return tensors


def results(tensors, choices, dtype, engine, lengths=None, reverse=False, history=True):
    ready = {k: v.to(dtype).requires_grad_() for k, v in tensors.items()}
    state = LogState(ready["r"], ready["l"]) if history else None
    output, final = scan(
        ready["input"],
        ready["recurrent_weight"],
        state,
        choices,
        input_weight=ready["input_weight"],
        bias=ready["bias"],
        lengths=lengths,
        reverse=reverse,
        engine=engine,
    )
    generator = torch.Generator().manual_seed(9)
    parts = {"output": output, "final r": final.r, "final l": final.l}
    loss = sum(
        (part * torch.randn(part.shape, generator=generator, dtype=torch.float64).to(dtype)).sum()
        for part in parts.values()
    )
    wanted = {k: v for k, v in ready.items() if history or k not in ("r", "l")}
    gradients = torch.autograd.grad(loss, list(wanted.values()))
    found = {f"d {name}": g for name, g in zip(wanted, gradients, strict=True)}
    return {name: part.detach() for name, part in parts.items()}, found


def assert_equal_to_reference(choices, engine, shape, dtype=torch.float32, **options):
    tensors = {k: v.to(dtype).double() for k, v in problem(choices, *shape).items()}
    exact = results(tensors, choices, torch.float64, "reference", **options)
    found = results(tensors, choices, dtype, engine, **options)
    bounds = (FORWARD, GRADIENT) if dtype == torch.float32 else (1e-13, 1e-12)
    for bound, expected, given in zip(bounds, exact, found, strict=True):
        for name, value in expected.items():
            # ReLU may leave a unit without any weight: log 0, the same on both sides.
            weightless = value == -torch.inf
            assert torch.equal(given[name] == -torch.inf, weightless)
            value = value.masked_fill(weightless, 0.0)
            difference = given[name].double().masked_fill(weightless, 0.0) - value
            error = difference.norm() / value.norm().clamp(min=1e-30)
            assert error < bound, f"{name}: {error:.1e} for {choices} {shape} {options}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_choice(engine, choices, dtype, reverse):
    lengths = torch.tensor([9, 0, 4, 1, 9, 7])
    shape = (9, 6, 17)
    assert_equal_to_reference(choices, engine, shape, dtype, reverse=reverse)
    assert_equal_to_reference(choices, engine, shape, dtype, reverse=reverse, lengths=lengths)
    assert_equal_to_reference(choices, engine, shape, dtype, reverse=reverse, history=False)


@pytest.mark.parametrize("attention", ATTENTION)
def test_every_attention_without_a_discount(engine, attention):
    assert_equal_to_reference(Choices(attention, discount=False), engine, (9, 6, 17))


@pytest.mark.parametrize("units", [1, 3, 17, 250, 257])
@pytest.mark.parametrize("batch", [1, 2, 5, 33, 101])
@pytest.mark.parametrize("threads", [1, 2])
def test_odd_sizes(engine, units, batch, threads):
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.randint(0, 6, (batch,), generator=generator)
    for choices in (RDA_EXP_TANH, RWA):
        for reverse in (False, True):
            shape = (5, batch, units)
            assert_equal_to_reference(choices, engine, shape, reverse=reverse, lengths=lengths)
            assert_equal_to_reference(choices, engine, (1, batch, units), reverse=reverse)


@pytest.mark.parametrize("choices", [RDA_EXP_TANH, RDA_SIGMOID_ID, RWA], ids=["exp", "sig", "rwa"])
@pytest.mark.parametrize(("batch", "units"), [(1, 250), (3, 17)])
def test_a_thousand_steps(engine, choices, batch, units):
    assert_equal_to_reference(choices, engine, (1000, batch, units))


@pytest.mark.parametrize("features", [1, 31, 32, 65])
def test_wide_and_narrow_inputs(engine, features):
    assert_equal_to_reference(RDA_EXP_TANH, engine, (4, 9, 20, features))


@pytest.mark.parametrize("bias", [True, False])
def test_projected_input_and_no_bias(engine, bias):
    tensors = {k: v.float() for k, v in problem(RDA_EXP_TANH, 6, 5, 19).items()}
    given = tensors["bias"] if bias else None
    projected = nn.functional.linear(tensors["input"], tensors["input_weight"], given)
    x = [projected.requires_grad_(), tensors["recurrent_weight"].requires_grad_()]
    for whole, expected in zip(
        gradients_of(scan(*x, engine=engine), x),
        gradients_of(scan(*x, engine="reference"), x),
        strict=True,
    ):
        torch.testing.assert_close(whole, expected, rtol=1e-5, atol=1e-5)


def gradients_of(result, inputs):
    output, final = result
    loss = output.square().sum() + final.r.sum() + final.l.sum()
    return output, *final, *torch.autograd.grad(loss, inputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_at_least_as_exact_as_the_reference(engine, dtype):
    torch.manual_seed(0)
    exact = rda.RDA(5, 24, num_layers=2, engine="reference")
    with torch.no_grad():
        for part in exact.parameters():
            part.copy_(part.to(dtype))
    x = torch.randn(30, 4, 5).to(dtype)
    errors = []
    for name in (engine, "reference"):
        layer = rda.RDA(5, 24, num_layers=2, engine=name)
        layer.load_state_dict(exact.state_dict())
        layer.to(dtype)
        output, state = layer(x)
        assert (output.dtype, state.average.dtype, state.weight.dtype) == (
            dtype,
            dtype,
            torch.float32,
        )
        output.float().square().sum().backward()
        exact.zero_grad()
        expected, _ = exact(x.float())
        expected.square().sum().backward()
        pairs = [(output.float(), expected)]
        pairs += [
            (a.grad.float(), b.grad)
            for a, b in zip(layer.parameters(), exact.parameters(), strict=True)
        ]
        errors.append([((a - b).norm() / b.norm()).item() for a, b in pairs])
    # The engine rounds what goes in and out, the reference each product too. A narrow output
    # is rounded to half an ulp, so an error of that size is no error of the engine's.
    half_ulp = torch.finfo(dtype).eps / 2
    for mine, reference in zip(*errors, strict=True):
        assert mine < max(1.5 * reference, half_ulp)


@pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RDA-sigmoid-id", "RWA"])
def test_layers_directions_and_packs(engine, unit):
    torch.manual_seed(0)
    layer = rda.build(unit, 3, 20, num_layers=2, bidirectional=True, engine=engine)
    truth = copy.deepcopy(layer)
    truth.engine = "reference"
    packed = pack_sequence([torch.randn(n, 3) for n in (7, 2, 5, 1)], enforce_sorted=False)
    state = (torch.randn(4, 4, 20), torch.rand(4, 4, 20))
    found = []
    for one in (layer, truth):
        output, final = one(packed, state)
        (output.data.square().sum() + final.average.sum() + final.weight.sum()).backward()
        found.append([output.data, *final, *(part.grad for part in one.parameters())])
    for mine, expected in zip(*found, strict=True):
        assert (mine - expected).norm() / expected.norm() < GRADIENT


def test_a_split_equals_the_whole(engine):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 33, engine=engine), torch.randn(20, 5, 3)
    whole, final = layer(x)
    first, state = layer(x[:7])
    second, state = layer(x[7:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.average, final.average, rtol=0, atol=1e-6)


def test_memory_full_of_nan_leaves_no_trace(engine):
    """Buffers come uninitialised: whatever was in that memory must not be read."""
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 19, engine=engine), torch.randn(6, 3, 3)
    lengths = pack_sequence([x[:6, 0], x[:4, 1], x[:1, 2]])
    clean = None
    torch.use_deterministic_algorithms(True)  # fills empty tensors with NaN
    try:
        for poison in (False, True):
            torch.utils.deterministic.fill_uninitialized_memory = poison
            layer.zero_grad()
            output, final = layer(lengths)
            output.data.sum().backward()
            found = [output.data, *final, *(part.grad.clone() for part in layer.parameters())]
            clean = clean or found
            for a, b in zip(found, clean, strict=True):
                assert torch.equal(a, b)
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_of_ten_thousand_stay_finite(engine, choices, dtype):
    huge = torch.Generator().manual_seed(3)
    projected = torch.randn(12, 4, choices.input_blocks * 3, generator=huge, dtype=dtype)
    logits = projected[..., 6:]
    logits.copy_((torch.randint(0, 2, logits.shape, generator=huge) * 2.0 - 1.0) * 1e4)
    weight = torch.randn(choices.recurrent_blocks * 3, 3, generator=huge, dtype=dtype)
    inputs = [projected.requires_grad_(), weight.requires_grad_()]
    found = []
    for name in (engine, "reference"):
        output, final = scan(projected, weight, None, choices, engine=name)
        loss = output.square().sum() + final.r.sum()
        found.append([output, final.r, final.l, *torch.autograd.grad(loss, inputs)])
    for mine, expected in zip(*found, strict=True):
        assert torch.equal(mine.isfinite(), expected.isfinite())
        assert not mine.isnan().any()
        if dtype == torch.float64:
            # One ulp of 1e4 is 2e-12, and that is the relative error of a share. In float32
            # it would be 1e-3: there only finiteness can be asked for.
            torch.testing.assert_close(mine, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_non_finite_input_stays_in_its_row_and_its_future(engine, choices, bad):
    torch.manual_seed(0)
    projected = torch.randn(6, 3, choices.input_blocks * 5)
    projected[2, 1, :] = bad
    weight = torch.randn(choices.recurrent_blocks * 5, 5)
    mine, truth = (
        scan(projected, weight, None, choices, engine=e)[0] for e in (engine, "reference")
    )
    assert torch.equal(mine.isfinite(), truth.isfinite())
    assert mine[:, [0, 2]].isfinite().all()
    assert mine[:2].isfinite().all()
    if bad is torch.nan:
        assert mine[2:, 1].isnan().all()


def test_threads_and_modes_change_nothing(engine):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 40, engine=engine), torch.randn(9, 40, 3)
    seen = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        seen.append(layer(x)[0].detach())
        with torch.no_grad():
            seen.append(layer(x)[0])
        with torch.inference_mode():
            seen.append(layer(x)[0].clone())
        seen.append(copy.deepcopy(layer)(x)[0].detach())
        seen.append(pickle.loads(pickle.dumps(layer))(x)[0].detach())
        assert torch.get_num_threads() == threads
    for one, other in itertools.pairwise(seen):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_repeated_runs_are_bit_identical(engine):
    torch.set_num_threads(2)
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 50, engine=engine), torch.randn(20, 34, 3)
    first, _ = layer(x)
    for _ in range(20):
        assert torch.equal(layer(x)[0], first)


def test_second_derivatives_fall_back_to_the_reference(engine, choices):
    torch.manual_seed(0)
    tensors = problem(choices, 4, 3, 2)
    x = [tensors[k].requires_grad_() for k in ("input", "recurrent_weight", "input_weight", "bias")]
    lengths = torch.tensor([4, 2, 3])
    seconds = []
    for name in (engine, "reference"):
        output, final = scan(
            *x[:2], None, choices, input_weight=x[2], bias=x[3], lengths=lengths, engine=name
        )
        loss = output.square().sum() + final.r.sum() + final.l[:, 0].sum()
        first = torch.autograd.grad(loss, x, create_graph=True)
        seconds.append(torch.autograd.grad(sum(g.square().sum() for g in first), x))
    for mine, expected in zip(*seconds, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-10)


def test_a_gradient_that_is_not_wanted_is_not_computed(engine):
    layer, x = rda.RDA(3, 4, engine=engine), torch.randn(5, 2, 3)
    layer.weight_ih_l0.requires_grad_(False)
    layer(x)[1].weight.sum().backward()
    assert x.grad is None
    assert layer.weight_ih_l0.grad is None
    assert layer.weight_hh_l0.grad is not None


def test_an_empty_batch(engine):
    layer, x = rda.RDA(3, 4, engine=engine), torch.randn(5, 0, 3, requires_grad=True)
    output, _ = layer(x)
    output.sum().backward()
    assert output.shape == (5, 0, 4)
    assert x.grad.shape == (5, 0, 3)
    assert torch.equal(layer.weight_hh_l0.grad, torch.zeros(12, 4))


def op_arguments(choices, engine, lengths=None, input_weight=True, dtype=torch.float32):
    tensors = {k: v.to(dtype).requires_grad_() for k, v in problem(choices, 3, 2, 4).items()}
    r, l = tensors["r"].float(), tensors["l"].float()
    if dtype == torch.float64:
        r, l = tensors["r"], tensors["l"]
    weights = (tensors["input_weight"], tensors["bias"]) if input_weight else (None, None)
    first = tensors["input"]
    if not input_weight:
        first = torch.randn(3, 2, choices.input_blocks * 4, dtype=dtype, requires_grad=True)
    state = [r.detach().requires_grad_(), l.detach().requires_grad_()]
    _, key = dispatch.unit_of(choices)
    return (
        first, *weights, tensors["recurrent_weight"], state, [], lengths, key, False, True, engine,
        "fp32",
    )  # fmt: skip


@pytest.mark.parametrize("choices", [RDA_EXP_TANH, RDA_SIGMOID_ID, RWA], ids=["exp", "sig", "rwa"])
@pytest.mark.parametrize("case", ["plain", "lengths", "projected", "bfloat16"])
def test_the_op_is_a_good_citizen(engine, choices, case):
    """torch's own checks: schema, fake tensors, autograd registration, aot dispatch."""
    lengths = torch.tensor([3, 1]) if case == "lengths" else None
    dtype = torch.bfloat16 if case == "bfloat16" else torch.float32
    arguments = op_arguments(choices, engine, lengths, case != "projected", dtype)
    torch.library.opcheck(scan_op, arguments, rtol=1e-3, atol=1e-3)


def test_the_backward_op_is_one_too(engine):
    arguments = op_arguments(RDA_SIGMOID_ID, engine)
    with torch.no_grad():
        output, r, _, *others = scan_op(*arguments)
    *of_call, _, _, _ = (a.detach() if isinstance(a, torch.Tensor) else a for a in arguments)
    of_call[4] = [part.detach() for part in of_call[4]]
    given = [torch.randn_like(output), torch.randn_like(r), None]
    kept = [output, *others]
    torch.library.opcheck(scan_backward_op, (*of_call, kept, given, engine, "fp32", True))


class Model(nn.Module):
    def __init__(self, engine="auto"):
        super().__init__()
        self.layer = rda.RDA(3, 8, num_layers=2, engine=engine)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.layer(x)[0]).square().mean()


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_torch_compile_gives_the_same_and_never_unrolls_time(engine):
    torch.manual_seed(0)
    model = Model(engine)
    sizes = []

    def counting(graph, example_inputs):
        sizes.append(len(graph.graph.nodes))
        return graph.forward

    for time in (50, 1000):
        torch._dynamo.reset()
        torch.compile(model, backend=counting, fullgraph=True)(torch.randn(time, 2, 3))
    assert sizes[0] == sizes[1]

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(20, 2, 3)
    expected = model(x)
    expected.backward()
    wanted = [part.grad.clone() for part in model.parameters()]
    model.zero_grad()
    loss = compiled(x)
    loss.backward()
    torch.testing.assert_close(loss, expected)
    for part, gradient in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(part.grad, gradient)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), expected.detach())


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "bias_l0"])
def test_forward_derivatives_and_vmap_find_their_way_to_the_reference(name):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4), torch.randn(5, 2, 3)
    truth = copy.deepcopy(layer)
    truth.engine = "reference"
    weight = layer.state_dict()[name].clone()

    def output(one, value):
        return torch.func.functional_call(one, {name: value}, (x,))[0]

    direction = torch.randn_like(weight)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weight, direction)
        mine, exact = (forward_ad.unpack_dual(output(one, dual)).tangent for one in (layer, truth))
    torch.testing.assert_close(mine, exact)
    _, pushed = torch.func.jvp(lambda value: output(layer, value), (weight,), (direction,))
    torch.testing.assert_close(pushed, exact)
    several = torch.stack([weight, 2 * weight])
    batched = torch.vmap(lambda value: output(layer, value))(several)
    expected = torch.stack([output(truth, value) for value in several])
    torch.testing.assert_close(batched, expected, rtol=1e-5, atol=1e-6)
    layer.engine = "cpu"
    with pytest.raises(rda.EngineUnavailableError, match="reference"):
        torch.vmap(lambda value: output(layer, value))(several)


def test_forward_derivatives_inside_torch_compile():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4), torch.randn(5, 2, 3)

    def pushed(x, direction):
        return torch.func.jvp(lambda y: layer(y)[0], (x,), (direction,))[1]

    direction = torch.randn_like(x)
    torch._dynamo.reset()
    compiled = torch.compile(pushed, backend="aot_eager")(x, direction)
    torch.testing.assert_close(compiled, pushed(x, direction))


def test_small_features_keep_their_digits(engine):
    """tanh of a small g is small, and its error must be small beside it."""
    tensors = problem(RDA_EXP_TANH, 6, 3, 8)
    for name in ("input_weight", "bias", "recurrent_weight"):
        block = slice(8, 16) if name != "recurrent_weight" else slice(0, 8)
        tensors[name][block] *= 1e-4
    tensors = {k: v.float().double() for k, v in tensors.items()}
    exact, _ = results(tensors, RDA_EXP_TANH, torch.float64, "reference", history=False)
    found, _ = results(tensors, RDA_EXP_TANH, torch.float32, engine, history=False)
    error = (found["output"].double() - exact["output"]).norm() / exact["output"].norm()
    assert error < FORWARD


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_jit_tracing_without_gradients_records_the_op(engine):
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, engine=engine), torch.randn(5, 2, 3)
    with torch.no_grad():
        traced = torch.jit.trace(layer, x, check_trace=False)
        other = torch.randn(5, 2, 3)
        torch.testing.assert_close(traced(other)[0], layer(other)[0])


def test_lengths_that_nobody_could_check_do_not_read_beyond_the_buffers(engine):
    torch.manual_seed(0)
    x, w = torch.randn(6, 3, 16), torch.randn(12, 4)
    state, key = [torch.zeros(3, 4), torch.zeros(3, 4)], "RDA exp identity tanh"
    how = (key, True, False, engine, "fp32")
    given = [
        scan_op(x, None, None, w, state, [], torch.tensor(lengths), *how)[0]
        for lengths in ([6, 9, -4], [6, 6, 0])
    ]
    assert torch.equal(*given)


@pytest.mark.parametrize("engine", ["cpu", "eager", "reference"])
def test_a_state_is_a_tensor_of_its_own(engine):
    x, weight = torch.randn(5, 2, 12), torch.randn(9, 3, requires_grad=True)
    _, final = scan(x, weight, engine=engine)
    for part in final:
        part.detach_()
    _, state = rda.RDA(4, 3, engine=engine)(torch.randn(5, 2, 4))
    for part in state:
        part.detach_()


@pytest.mark.parametrize("engine", ["cpu", "eager", "reference"])
@pytest.mark.parametrize(("time", "batch"), [(1, 1), (3, 1), (1, 2)])
def test_what_was_given_is_left_alone(engine, time, batch):
    x, weight = torch.randn(time, batch, 12), torch.randn(9, 3)
    before = x.clone()
    scan(x, weight, engine=engine)
    assert torch.equal(x, before)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("time", "batch"), [(1, 1), (5, 1), (5, 3), (1, 3)])
def test_the_recurrent_gradient_of_any_layout(time, batch, reverse):
    h = torch.randn(time, batch, 4)
    d_gates = torch.randn(batch, time, 16).transpose(0, 1)  # of one row, torch's strides are odd
    if batch > 1:
        d_gates = d_gates.contiguous()
    later, earlier = (d_gates[:-1], h[1:]) if reverse else (d_gates[1:], h[:-1])
    expected = torch.einsum("tbg,tbh->gh", later[..., 4:], earlier)
    found = recurrent_gradient(d_gates[..., 4:], h, None, None, reverse)
    torch.testing.assert_close(found, expected)


def test_a_callable_goes_to_the_reference_and_that_is_said_once(monkeypatch):
    monkeypatch.setattr(dispatch, "_told", set())
    layer = rda.RDA(3, 4, hidden=torch.tanh)
    with pytest.warns(rda.EngineWarning, match="hidden is a callable"):
        layer(torch.randn(5, 2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.randn(5, 2, 3))
    with pytest.raises(rda.EngineUnavailableError, match="hidden is a callable"):
        rda.RDA(3, 4, hidden=torch.tanh, engine="cpu")(torch.randn(5, 2, 3))


def test_a_cpu_engine_for_another_device_says_so():
    layer = rda.RDA(3, 4, device="meta", engine="cpu")
    with pytest.raises(rda.EngineUnavailableError, match="the tensors are on meta"):
        layer(torch.randn(5, 2, 3, device="meta"))
