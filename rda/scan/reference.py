"""Any unit over time by its own functions on tensors, differentiated by autograd.

Every other engine is tested against this one.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.precision import computing_in, state_dtype
from rda.scan.passes import Call
from rda.scan.ragged import running
from rda.scan.tracing import check_allocated


def scan(call: Call) -> tuple[Tensor, ...]:
    """The output of every step, (time, batch, hidden), and the final state, (1, batch, hidden)."""
    unit, input, weights, lengths = call.unit, call.input, call.weights, call.lengths
    projected = input
    if weights.input is not None:
        projected = F.linear(input, weights.input, weights.bias)
    going_on = None if lengths is None else running(lengths, projected).unbind(0)
    wide, recurrent_weight = state_dtype(input.dtype), weights.recurrent
    for part in call.start:
        check_allocated(part, "state")
    like = input.new_empty((input.shape[1], recurrent_weight.shape[1]), dtype=wide)
    state = unit.filled(call.starts, like)
    own = (unit.w_type(*weights.of_units),) if unit.weights else ()
    # unbind, because the backward pass of projected[t] creates a full-size tensor at every step.
    projected_at = projected.unbind(0)
    outputs = list(projected_at)
    order = range(len(outputs))
    for t in reversed(order) if call.reverse else order:
        with computing_in(wide):
            # The product is in the dtype of the weights, the rest in the dtype of the state.
            h = _whole(unit.hidden(state), like)
            h = F.linear(h.to(recurrent_weight.dtype), recurrent_weight)
            x_blocks = unit.x_type(*projected_at[t].to(wide).chunk(len(unit.inputs), -1))
            h_blocks = unit.h_type(*h.to(wide).chunk(len(unit.recurrent), -1))
            stepped = [_whole(new, like) for new in unit.step(x_blocks, h_blocks, state, *own)]
            if going_on is not None:
                pairs = zip(stepped, state, strict=True)
                stepped = [torch.where(going_on[t], new, old) for new, old in pairs]
            state = unit.state_type(*stepped)
            outputs[t] = _whole(unit.output(state), like)
    output = torch.stack(outputs)
    if going_on is not None:
        output = output.masked_fill(~torch.stack(going_on), 0.0)
    # Copies and not views, because users detach states in place, as they do with nn.LSTM.
    final = (torch.stack((part,)) for part in state)
    return _reached((output.to(projected.dtype), *final), call.tensors)


def _whole(value: Tensor | float, like: Tensor) -> Tensor:
    """The value as a tensor like this one; a step may also compute a comparison or a number."""
    if not isinstance(value, Tensor):
        return like.new_full(like.shape, value)
    return value.to(like.dtype).expand_as(like)


def _reached(results: Iterable[Tensor], tensors: Iterable[Tensor | None]) -> tuple[Tensor, ...]:
    """The results, whose gradients are 0 by what a step does not use, as every engine has it.

    With None in their place an optimiser would not decay such weights, and DDP would wait for them.
    """
    none_of_them = [x.flatten()[:0].sum() for x in tensors if x is not None and x.requires_grad]
    return tuple(sum(none_of_them, result) for result in results)
