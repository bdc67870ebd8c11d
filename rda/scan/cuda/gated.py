"""torch's LSTM and GRU on a GPU: one direction of one layer, weights as torch.nn has them."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.cuda.launching import Pass, Run, Sizes, pointers, products, structure
from rda.scan.kernels import projection_gradients, recurrent_gradient
from rda.scan.tracing import is_differentiated

# In the order of the structs in lstm.cu and gru.cu.
LSTMForward = structure("LSTMForward", "h0 c0 h c output cells saved")
LSTMBackward = structure("LSTMBackward", "d_h d_c c0 d_output cells saved d_input d_h0 d_c0")
GRUForward = structure("GRUForward", "h0 bias h output saved")
GRUBackward = structure("GRUBackward", "d_h h0 d_output output saved d_input d_product d_h0")


def lstm(
    input: Tensor,
    start: list[Tensor | None],
    weights: list[Tensor],
    reverse: bool,
    run: Run,
    product: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (time, batch, hidden), and the final h and c; `weights` as nn.LSTM lists them."""
    weight_ih, weight_hh, *biases = weights
    bias = biases[0] + biases[1] if biases else None
    keep = is_differentiated((input, *start, *weights))
    found: tuple[Tensor, Tensor, Tensor] = _LSTM.apply(  # type: ignore[no-untyped-call]
        input, *start, weight_ih, weight_hh, bias, reverse, run, product, keep
    )
    return found


def gru(
    input: Tensor,
    start: list[Tensor | None],
    weights: list[Tensor],
    reverse: bool,
    run: Run,
    product: str,
) -> tuple[Tensor, Tensor]:
    """Output (time, batch, hidden), and the final h; `weights` as nn.GRU lists them."""
    weight_ih, weight_hh, *biases = weights
    keep = is_differentiated((input, *start, *weights))
    found: tuple[Tensor, Tensor] = _GRU.apply(  # type: ignore[no-untyped-call]
        input, *start, weight_ih, weight_hh, *(biases or (None, None)), reverse, run, product, keep
    )
    return found


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        input, h0, c0, weight_ih, weight_hh, bias, reverse, run, product, keep = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        with products(product):
            projected = F.linear(input, weight_ih, bias)
        output = input.new_empty(time, batch, units)
        cells = torch.empty_like(output) if keep else None
        h, c = (_state(input, units) for _ in range(2))
        at = LSTMForward(*pointers(h0, c0, h, c, output, cells, projected if keep else None))
        ctx.call = _Call(run, "lstm", product, Sizes(time, batch, reverse))
        ctx.call.forward(weight_hh, projected, at)
        ctx.save_for_backward(input, h0, c0, weight_ih, weight_hh, output, cells, projected)
        ctx.has_bias = bias is not None
        ctx.set_materialize_grads(False)
        return output, h, c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        input, h0, c0, weight_ih, weight_hh, output, cells, saved = ctx.saved_tensors
        d_input = torch.empty_like(saved)
        d_h0, d_c0 = (None if start is None else torch.empty_like(start) for start in (h0, c0))
        d_output, d_h, d_c = _ready(gradients, output)
        at = LSTMBackward(*pointers(d_h, d_c, c0, d_output, cells, saved, d_input, d_h0, d_c0))
        ctx.call.backward(weight_hh, at)
        with products(ctx.call.product):
            d_weight_hh = ctx.call.over_time(d_input, output, h0)
            d_weight_ih, d_bias = _projection(d_input, input)
            d_x = d_input @ weight_ih if ctx.needs_input_grad[0] else None
        d_bias_sum = d_bias if ctx.has_bias else None
        return d_x, d_h0, d_c0, d_weight_ih, d_weight_hh, d_bias_sum, None, None, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        input, h0, weight_ih, weight_hh, bias_ih, bias_hh, reverse, run, product, keep = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        bias = last = None
        if bias_ih is not None:
            # r and z see the sum of both biases; n's own is multiplied by r.
            bias = bias_ih + torch.cat((bias_hh[: 2 * units], torch.zeros_like(bias_hh[:units])))
            last = bias_hh[2 * units :].float()
        with products(product):
            projected = F.linear(input, weight_ih, bias)
        output = input.new_empty(time, batch, units)
        saved = input.new_empty(time, batch, 4 * units) if keep else None
        h = _state(input, units)
        at = GRUForward(*pointers(h0, last, h, output, saved))
        ctx.call = _Call(run, "gru", product, Sizes(time, batch, reverse))
        ctx.call.forward(weight_hh, projected, at)
        ctx.save_for_backward(input, h0, weight_ih, weight_hh, output, saved)
        ctx.has_bias = bias_ih is not None
        ctx.set_materialize_grads(False)
        return output, h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        input, h0, weight_ih, weight_hh, output, saved = ctx.saved_tensors
        time, batch, units = output.shape
        d_input = saved.new_empty(time, batch, 3 * units)
        d_product = saved.new_empty(time, batch, units)
        d_h0 = None if h0 is None else torch.empty_like(h0)
        d_output, d_h = _ready(gradients, output)
        at = GRUBackward(*pointers(d_h, h0, d_output, output, saved, d_input, d_product, d_h0))
        ctx.call.backward(weight_hh, at)
        over_time = ctx.call.over_time
        with products(ctx.call.product):
            d_weight_hh = torch.cat(
                (
                    over_time(d_input[..., : 2 * units], output, h0),
                    over_time(d_product, output, h0),
                )
            )
            d_weight_ih, d_bias = _projection(d_input, input)
            d_x = d_input @ weight_ih if ctx.needs_input_grad[0] else None
            d_bias_hh = None
            if ctx.has_bias:
                ones = d_product.new_ones(1, time * batch)
                d_last = (ones @ d_product.flatten(0, 1)).flatten()
                d_bias_hh = torch.cat((d_bias[: 2 * units], d_last))
        d_bias_ih = d_bias if ctx.has_bias else None
        return d_x, d_h0, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh, None, None, None, None


class _Call(NamedTuple):
    """What the forward and the backward pass of one call have in common."""

    run: Run
    unit: str
    product: str
    sizes: Sizes

    def forward(self, weight: Tensor, projected: Tensor, at: ctypes.Structure) -> None:
        work = Pass("forward", self.unit, self.product, (), projected, weight, at, None, self.sizes)
        work.queue(self.run)

    def backward(self, weight: Tensor, at: ctypes.Structure) -> None:
        work = Pass("backward", self.unit, self.product, (), None, weight, at, None, self.sizes)
        work.queue(self.run)

    def over_time(self, d_gates: Tensor, output: Tensor, h0: Tensor | None) -> Tensor:
        return recurrent_gradient(d_gates, output, h0, None, bool(self.sizes.reverse))


def _state(input: Tensor, units: int) -> Tensor:
    """Room for a state, in float32 whatever the input's dtype."""
    return input.new_empty(input.shape[1], units, dtype=torch.float32)


def _ready(gradients: Sequence[Tensor | None], output: Tensor) -> list[Tensor | None]:
    """The output's gradient, zeros where it has none, and the states'."""
    d_output, *others = gradients
    filled = torch.zeros_like(output) if d_output is None else d_output.contiguous()
    return [filled, *(part if part is None else part.contiguous() for part in others)]


def _projection(d_input: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    return projection_gradients(d_input.flatten(0, 1), input.flatten(0, 1))
