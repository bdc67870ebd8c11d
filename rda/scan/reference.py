"""A Python loop over the equations, differentiated by autograd.

Every other engine is tested against this one.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices
from rda.equations import Gates, LogState, gates, output, stable_hidden, stable_step
from rda.scan.kernels import from_nothing
from rda.scan.ragged import running
from rda.scan.tracing import check_allocated


def scan(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    state: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, LogState]:
    """Shapes and meaning as in `rda.scan.dispatch.scan_layer`."""
    if state is None:
        state = from_nothing(input, recurrent_weight.shape[1])
    for name, part in zip(state._fields, state, strict=True):
        check_allocated(part, f"state.{name}")
    projected = input if input_weight is None else F.linear(input, input_weight, bias)
    order = range(projected.shape[0])
    going_on = None if lengths is None else running(lengths, projected)
    # unbind, because the backward pass of projected[t] creates a full-size tensor at every step.
    projected_at = projected.unbind(0)
    going_on_at = None if going_on is None else going_on.unbind(0)

    outputs = [projected_at[0]] * len(order)
    h = stable_hidden(state, choices)
    for t in reversed(order) if reverse else order:
        gate = _widened_gates(projected_at[t], h, recurrent_weight, choices, state.r.dtype)
        stepped = stable_step(state, gate, choices)
        if going_on_at is not None:
            stepped = LogState(
                torch.where(going_on_at[t], stepped.r, state.r),
                torch.where(going_on_at[t], stepped.l, state.l),
            )
        state = stepped
        h = stable_hidden(state, choices)
        outputs[t] = output(h, choices)
    stacked = torch.stack(outputs)
    if going_on is not None:
        stacked = stacked.masked_fill(~going_on, 0.0)
    # Copies and not views, because users detach states in place, as they do with nn.LSTM.
    return stacked.to(projected.dtype), LogState(*(torch.stack((part,)) for part in state))


def _widened_gates(
    projected: Tensor, h: Tensor, recurrent_weight: Tensor, choices: Choices, dtype: torch.dtype
) -> Gates:
    """The matrix product in the dtype of the weights, the rest in the dtype of the state."""
    recurrent = F.linear(h.to(recurrent_weight.dtype), recurrent_weight)
    return gates(projected.to(dtype), recurrent.to(dtype), choices)
