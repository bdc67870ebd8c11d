"""Runs a scan on an engine and on the reference, and measures how far the results are apart."""

import torch
from torch import nn

import rda
from rda.activations import Choices
from rda.baselines import GRU, LSTM
from rda.equations import LogState
from rda.scan.dispatch import scan
from rda.scan.engines import ON_GPUS

RDA = Choices()
RWA = Choices("exp", "tanh", "identity", discount=False)

# Matmuls in float32 round each of a few hundred terms by 1e-7. tf32 keeps 11 bits of an operand and
# bf16 keeps 8, so a product is off by up to 5e-4 and 4e-3. Each step passes its error on.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}


def draw(time, batch, units, inputs, choices, seed=0):
    """Random input, weights, bias and state of a scan, in float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tensors = [
        normal(time, batch, inputs),
        normal(choices.recurrent_blocks * units, units) / units**0.5,
        normal(choices.input_blocks * units, inputs) / inputs**0.5,
        normal(choices.input_blocks * units),
        normal(batch, units),
        normal(batch, units),
    ]
    if choices.attention == "relu":
        # Near 0 rounding decides whether ReLU lets a step count: keep every logit away from it.
        attention = slice(2 * units, 3 * units)
        tensors[3][attention] = 6.0
        tensors[2][attention] *= 0.1
        tensors[1][units : 2 * units] *= 0.1
    return tensors


def run(tensors, choices, engine, dtype, product, lengths=None, reverse=False):
    """Output, final state and all gradients of a scan, converted to float64."""
    low = torch.bfloat16 if product == "bf16" else torch.float64
    tensors = [t.to(low).double() if k < 4 else t for k, t in enumerate(tensors)]
    is_low = product == "bf16" and engine != "reference"
    kinds = [torch.bfloat16 if is_low else dtype] * 4 + [dtype] * 2
    ready = [t.to("cuda", kind).requires_grad_() for t, kind in zip(tensors, kinds, strict=True)]
    x, weight, input_weight, bias, r, l = ready
    output, final = scan(
        x, weight, LogState(r, l), choices, input_weight=input_weight, bias=bias,
        lengths=lengths, reverse=reverse, engine=engine,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(9)
    loss = sum(
        (part * torch.randn(part.shape, generator=generator).to(part)).sum()
        for part in (output, *final)
    )
    gradients = torch.autograd.grad(loss, ready)
    return [part.detach().double() for part in (output, *final, *gradients)]


def distance(found, exact):
    """The largest relative error of a tensor: the norm of the difference by the exact norm."""
    pairs = [(mine.detach(), true.detach()) for mine, true in zip(found, exact, strict=True)]
    assert all(mine.isfinite().all() for mine, _ in pairs)
    return max(float((mine - true).norm() / true.norm().clamp(min=1e-30)) for mine, true in pairs)


def error(engine, time, batch, units, choices, product, lengths=None, reverse=False):
    """The distance between a GPU engine and the reference in float64."""
    tensors = draw(time, batch, units, 6, choices)
    if lengths is not None:
        lengths = torch.tensor(lengths, device="cuda")
    found = run(tensors, choices, engine, torch.float32, product, lengths, reverse)
    exact = run(tensors, choices, "reference", torch.float64, product, lengths, reverse)
    return distance(found, exact)


def split_and_whole(engine, batch, units, product):
    """Outputs and final state of 30 steps: from two scans of 13 and 17 steps, and from one scan."""
    kinds = [torch.bfloat16 if product == "bf16" else torch.float32] * 4 + [torch.float32] * 2
    tensors = draw(30, batch, units, 6, RDA)
    ready = (t.to("cuda", kind) for t, kind in zip(tensors, kinds, strict=True))
    x, weight, input_weight, bias, *start = ready
    options = {"input_weight": input_weight, "bias": bias, "engine": engine}
    whole, final = scan(x, weight, LogState(*start), **options)
    first, middle = scan(x[:13], weight, LogState(*start), **options)
    second, last = scan(x[13:], weight, middle, **options)
    return (first, second, *last), (whole[:13], whole[13:], *final)


def stays_finite(engine, units, choices, product):
    """Whether output, state and gradients are finite for logits around 10,000 and -10,000."""
    tensors = draw(40, 9, units, 6, choices)
    results = []
    for scale in (1e4, -1e4):
        tensors[3][:] = scale * torch.sign(tensors[3])
        results += run(tensors, choices, engine, torch.float32, product)
    return all(part.isfinite().all() for part in results)


def a_thousand_agree(engine, batch, units, product):
    """Whether a thousand runs give identical bits."""
    tensors = [t.to("cuda") for t in draw(20, batch, units, 6, RDA)]
    first = run(tensors, RDA, engine, torch.float32, product)
    return all(
        all(map(torch.equal, first, run(tensors, RDA, engine, torch.float32, product)))
        for _ in range(1000)
    )


def replayed_and_run(layer, x):
    """Output and gradients on new values of x: from a CUDA graph of the layer, and without it.

    All steps run on the stream that captures, and no step keeps the autograd graph of the one
    before alive: torch accumulates a parameter's gradient on the stream of the oldest step whose
    autograd graph is alive, and a capture cannot wait for another stream.
    """

    def step():
        output, _ = layer(x)
        gradients = torch.autograd.grad(output.square().sum(), list(layer.parameters()))
        return (output.detach(), *gradients)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = step()
        x.copy_(torch.randn_like(x))
        graph.replay()
        expected = step()
    torch.cuda.current_stream().wait_stream(stream)
    return captured, expected


def on_another_stream(layer, x):
    """The layer's output and its sum on a side stream, where a copy of x is made just before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        copy = x * 1.0
        found, _ = layer(copy)
        total = found.sum()
    stream.synchronize()
    return found, total


def plain_and_compiled(layer, x):
    """Pairs of gradients: of the layer as it is, and compiled by torch.compile as one graph."""
    gradients = []
    for module in (layer, torch.compile(layer, fullgraph=True)):
        output, _ = module(x)
        loss = output.float().square().sum()
        gradients.append(torch.autograd.grad(loss, (x, *layer.parameters())))
    return zip(*gradients, strict=True)


def check_op(engine, units, dtype):
    """Run torch's own checks of a custom op on the engine."""
    tensors = [t.to("cuda", torch.float32) for t in draw(5, 3, units, 4, RDA)]
    tensors = [t.to(dtype) if k < 4 else t for k, t in enumerate(tensors)]
    x, weight, input_weight, bias, r, l = (t.requires_grad_() for t in tensors)
    call = (x, input_weight, bias, weight, [r, l], [], None, "RDA exp identity tanh", False)
    product = "bf16" if dtype == torch.bfloat16 else "fp32"
    torch.library.opcheck(torch.ops.rda.scan, (*call, True, engine, product))


def packed_error(engine, units, dtype):
    """The distance from the reference of two bidirectional layers on a packed sequence."""
    torch.manual_seed(0)
    options = {"num_layers": 2, "bidirectional": True, "learn_initial_state": True}
    layer = rda.RDA(5, units, engine=engine, **options).to("cuda", dtype)
    exact = rda.RDA(5, units, engine="reference", **options)
    exact.load_state_dict(layer.state_dict())
    exact = exact.cuda().double()
    x = torch.randn(17, 6, 5, device="cuda", dtype=dtype)
    lengths = torch.tensor([17, 3, 9, 1, 17, 12])

    def packed(tensor):
        return torch.nn.utils.rnn.pack_padded_sequence(tensor, lengths, enforce_sorted=False)

    found, expected = layer(packed(x))[0].data, exact(packed(x.double()))[0].data
    return distance([found.double()], [expected])


PAIRS = {"LSTM": (LSTM, nn.LSTM), "GRU": (GRU, nn.GRU)}


def _results(layer, x, states, dtype, device):
    x = x.to(device, dtype).requires_grad_()
    states = [state.to(device, dtype).requires_grad_() for state in states]
    output, final = layer(x, tuple(states) if len(states) > 1 else states[0])
    final = final if isinstance(final, tuple) else (final,)
    generator = torch.Generator().manual_seed(3)
    loss = sum(
        (part * torch.randn(part.shape, generator=generator).to(part)).sum()
        for part in (output, *final)
    )
    gradients = torch.autograd.grad(loss, [x, *states, *layer.parameters()])
    return [part.detach().double().cpu() for part in (output, *final, *gradients)]


def baseline_error(name, product, time, batch, units, bias=True, **options):
    """The distance between our LSTM or GRU and torch's in float64: outputs, states, gradients."""
    ours, theirs = PAIRS[name]
    torch.manual_seed(0)
    layer = ours(6, units, bias=bias, **options)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(units**-0.5), units**-0.5)
    exact = theirs(6, units, bias=bias, **options)
    x = torch.randn(*((batch, time) if layer.batch_first else (time, batch)), 6)
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    states = [torch.randn(rows, batch, units) for _ in range(2 if name == "LSTM" else 1)]
    dtype = torch.bfloat16 if product == "bf16" else torch.float32
    layer = layer.to("cuda", dtype)
    exact.load_state_dict(layer.state_dict())  # the weights after rounding
    x, states = x.to(dtype), [state.to(dtype) for state in states]
    assert layer.engine_for(x.cuda()) in ON_GPUS
    found = _results(layer, x, states, dtype, "cuda")
    return distance(found, _results(exact.double(), x, states, torch.float64, "cpu"))
