"""One symbol after the other for one sequence, without what layers do for batches.

A step of a layer is mostly Python: checks, lengths, the choice of an engine. Writing a text takes
thousands of steps that depend on each other, so all of that is done once, before the first.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rda.precision import in_dtype
from rda.scan import op, reference
from rda.scan.dispatch import choose
from rda.scan.engines import Work
from rda.scan.passes import Call
from rda.training.cuda_graph import CudaGraph
from rda.training.model import SequenceModel

Step = Callable[[int], Tensor]
"""From a symbol's number to the logits of what follows it, which the next step may overwrite."""


def one_step(model: SequenceModel, state: Any = None) -> Step:
    """A function from a symbol's number to the logits of what follows; it remembers the state.

    Args:
        model: a model of symbols with one layer.
        state: the state of its unit to go on from; None for a new sequence.
    """
    assert model.symbols is not None
    symbols = torch.arange(model.symbols, device=model.readout.weight.device)
    call = model.unit.first_call(model.encode(symbols.unsqueeze(1)), state)
    # What each symbol adds to the gates, once for all steps.
    projected = F.linear(call.input, call.weights.input, call.weights.bias)
    weights = call.weights._replace(input=None, bias=None)
    call = call._replace(input=projected[:1], weights=weights)
    if projected.is_cuda:
        return _replayed(call, projected, model.readout)
    follow = _in_kernel(call, projected)
    return lambda symbol: model.readout(follow(symbol))


def _in_kernel(call: Call, projected: Tensor) -> Step:
    """From a symbol to the unit's output, by the kernel of an engine."""
    engine = choose("auto", Work.of(call), tell=False)
    kernel, ready = op.prepared(call._replace(input=projected), engine, "fp32")
    inputs, dtype = ready.input.split(1), projected.dtype
    state = ready.start

    def step(symbol: int) -> Tensor:
        nonlocal state
        results = kernel.forward(ready._replace(input=inputs[symbol], start=state), keep=False)
        state = tuple([part[0] for part in results.state])
        return in_dtype(results.output[0, 0], dtype)

    return step


def _replayed(call: Call, projected: Tensor, readout: nn.Module) -> Step:
    """On a GPU a step is dozens of small operations, which a CUDA graph starts at once."""

    def advance(symbol: Tensor, *state: Tensor) -> Sequence[Tensor]:
        input = projected.index_select(0, symbol)
        output, *parts = reference.scan(call._replace(input=input, start=state))
        return readout(output[0, 0]), *(part[0] for part in parts)

    numbers = torch.arange(len(projected), device=projected.device).split(1)
    _, *state = advance(numbers[0], *call.start)
    like = state[0]
    state = [torch.clone(part) for part in call.unit.filled(call.starts, like)]
    graph = CudaGraph(advance, [numbers[0], *state])

    def step(symbol: int) -> Tensor:
        nonlocal state
        logits, *state = graph(numbers[symbol], *state)
        return logits

    return step
