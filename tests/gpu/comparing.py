"""One scan in an engine and in the reference, and how far they are apart."""

import torch

from rda.equations import LogState
from rda.scan.dispatch import scan

# Products in float32 add up 1e-7 for each of some hundred terms; tf32 keeps 11 bits of an operand,
# bf16 8, so a product is off by up to 5e-4 and 4e-3, and steps pass their errors on.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}


def draw(time, batch, units, inputs, choices, seed=0):
    """Input, weights, bias and state of a scan, in float64."""
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
        # On ReLU's kink a rounding decides whether a step counts: keep every logit off it.
        attention = slice(2 * units, 3 * units)
        tensors[3][attention] = 6.0
        tensors[2][attention] *= 0.1
        tensors[1][units : 2 * units] *= 0.1
    return tensors


def run(tensors, choices, engine, dtype, product, lengths=None, reverse=False):
    """Output, final state and all gradients, in float64."""
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
    """The largest relative error, each tensor's by its norm."""
    assert all(part.isfinite().all() for part in found)
    return max(
        float((mine - true).norm() / true.norm().clamp(min=1e-30))
        for mine, true in zip(found, exact, strict=True)
    )


def error(engine, time, batch, units, choices, product, lengths=None, reverse=False):
    """How far a GPU engine is from the reference in float64."""
    tensors = draw(time, batch, units, 6, choices)
    if lengths is not None:
        lengths = torch.tensor(lengths, device="cuda")
    found = run(tensors, choices, engine, torch.float32, product, lengths, reverse)
    exact = run(tensors, choices, "reference", torch.float64, product, lengths, reverse)
    return distance(found, exact)


def replayed_and_run(layer, x):
    """Output and gradients on new values of x: from a CUDA graph of the layer, and without it."""

    def step():
        output, _ = layer(x)
        return (output, *torch.autograd.grad(output.square().sum(), list(layer.parameters())))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    x.copy_(torch.randn_like(x))
    graph.replay()
    return captured, step()
