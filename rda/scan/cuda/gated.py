"""LSTM and GRU in the GPU engines: one direction of one layer, with the weights of torch.nn."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.cuda.launching import Pass, Run, Sizes, pointers, products, structure
from rda.scan.kernels import projection_gradients, recurrent_gradient
from rda.scan.tracing import is_differentiated

# Fields in the order of the structs in lstm.cu and gru.cu.
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
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The output (time, batch, hidden), the final h and the final c; `weights` as in nn.LSTM."""
    weight_ih, weight_hh, *biases = weights
    bias = biases[0] + biases[1] if biases else None
    keep = is_differentiated((input, *start, *weights))
    results: tuple[Tensor, Tensor, Tensor] = _LSTM.apply(  # type: ignore[no-untyped-call]
        input, *start, weight_ih, weight_hh, bias, reverse, run, precision, keep
    )
    return results


def gru(
    input: Tensor,
    start: list[Tensor | None],
    weights: list[Tensor],
    reverse: bool,
    run: Run,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """The output (time, batch, hidden) and the final h; `weights` as in nn.GRU."""
    weight_ih, weight_hh, *biases = weights
    keep = is_differentiated((input, *start, *weights))
    results: tuple[Tensor, Tensor] = _GRU.apply(  # type: ignore[no-untyped-call]
        input, *start, weight_ih, weight_hh, *(biases or (None, None)), reverse, run, precision,
        keep,
    )  # fmt: skip
    return results


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        input, h0, c0, weight_ih, weight_hh, bias, reverse, run, precision, keep = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        with products(precision):
            projected = F.linear(input, weight_ih, bias)
        output = input.new_empty(time, batch, units)
        cells = torch.empty_like(output) if keep else None
        h, c = (_state(input, units) for _ in range(2))
        # For the backward pass the kernel saves the gates in place of the projections.
        addresses = LSTMForward(*pointers(h0, c0, h, c, output, cells, projected if keep else None))
        ctx.call = _Call(run, "lstm", precision, Sizes(time, batch, reverse))
        ctx.call.forward(weight_hh, projected, addresses)
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
        addresses = LSTMBackward(
            *pointers(d_h, d_c, c0, d_output, cells, saved, d_input, d_h0, d_c0)
        )
        ctx.call.backward(weight_hh, addresses)
        with products(ctx.call.precision):
            d_weight_hh = ctx.call.weight_gradient(d_input, output, h0)
            d_weight_ih, d_bias = _projection_gradients(d_input, input)
            d_x = d_input @ weight_ih if ctx.needs_input_grad[0] else None
        d_bias_sum = d_bias if ctx.has_bias else None
        return d_x, d_h0, d_c0, d_weight_ih, d_weight_hh, d_bias_sum, None, None, None, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        input, h0, weight_ih, weight_hh, bias_ih, bias_hh, reverse, run, precision, keep = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        bias = bias_n = None
        if bias_ih is not None:
            # r and z take the sum of both biases. The recurrent bias of n is multiplied by r, so
            # the kernel adds it.
            bias = bias_ih + torch.cat((bias_hh[: 2 * units], torch.zeros_like(bias_hh[:units])))
            bias_n = bias_hh[2 * units :].float()
        with products(precision):
            projected = F.linear(input, weight_ih, bias)
        output = input.new_empty(time, batch, units)
        saved = input.new_empty(time, batch, 4 * units) if keep else None
        h = _state(input, units)
        addresses = GRUForward(*pointers(h0, bias_n, h, output, saved))
        ctx.call = _Call(run, "gru", precision, Sizes(time, batch, reverse))
        ctx.call.forward(weight_hh, projected, addresses)
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
        addresses = GRUBackward(
            *pointers(d_h, h0, d_output, output, saved, d_input, d_product, d_h0)
        )
        ctx.call.backward(weight_hh, addresses)
        weight_gradient = ctx.call.weight_gradient
        with products(ctx.call.precision):
            d_weight_hh = torch.cat(
                (
                    weight_gradient(d_input[..., : 2 * units], output, h0),
                    weight_gradient(d_product, output, h0),
                )
            )
            d_weight_ih, d_bias = _projection_gradients(d_input, input)
            d_x = d_input @ weight_ih if ctx.needs_input_grad[0] else None
            d_bias_hh = None
            if ctx.has_bias:
                ones = d_product.new_ones(1, time * batch)
                d_bias_n = (ones @ d_product.flatten(0, 1)).flatten()
                d_bias_hh = torch.cat((d_bias[: 2 * units], d_bias_n))
        d_bias_ih = d_bias if ctx.has_bias else None
        return d_x, d_h0, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh, None, None, None, None


class _Call(NamedTuple):
    """What the forward and the backward pass of one call share."""

    run: Run
    unit: str
    precision: str
    sizes: Sizes

    def forward(self, weight: Tensor, projected: Tensor, addresses: ctypes.Structure) -> None:
        work = Pass(
            "forward", self.unit, self.precision, (), projected, weight, addresses, None,
            self.sizes,
        )  # fmt: skip
        work.queue(self.run)

    def backward(self, weight: Tensor, addresses: ctypes.Structure) -> None:
        work = Pass(
            "backward", self.unit, self.precision, (), None, weight, addresses, None, self.sizes
        )
        work.queue(self.run)

    def weight_gradient(self, d_gates: Tensor, output: Tensor, h0: Tensor | None) -> Tensor:
        return recurrent_gradient(d_gates, output, h0, None, bool(self.sizes.reverse))


def _state(input: Tensor, units: int) -> Tensor:
    """An empty tensor for a final state; states are float32 whatever the input's dtype."""
    return input.new_empty(input.shape[1], units, dtype=torch.float32)


def _ready(gradients: Sequence[Tensor | None], output: Tensor) -> list[Tensor | None]:
    """Contiguous gradients of the output and the states; the output's is zeros where it is None."""
    d_output, *others = gradients
    filled = torch.zeros_like(output) if d_output is None else d_output.contiguous()
    return [filled, *(part if part is None else part.contiguous() for part in others)]


def _projection_gradients(d_input: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    return projection_gradients(d_input.flatten(0, 1), input.flatten(0, 1))
