"""torch's LSTM and GRU on chip: one direction of one layer, weights as torch.nn has them."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.cuda.onchip import Sizes, launcher, pointer, pointers, products, structure
from rda.scan.kernels import projection_gradients, recurrent_gradient

# In the order of the structs in lstm.cu and gru.cu.
LSTMForward = structure("LSTMForward", "h0 c0 output h c cells saved")
LSTMBackward = structure("LSTMBackward", "d_output d_h d_c c0 cells saved d_input d_h0 d_c0")
GRUForward = structure("GRUForward", "h0 bias output h saved")
GRUBackward = structure("GRUBackward", "d_output d_h h0 output saved d_input d_product d_h0")


def lstm(
    input: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    reverse: bool,
    product: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (time, batch, hidden), and the final h and c; `bias` is the sum of torch's two."""
    found: tuple[Tensor, Tensor, Tensor] = _LSTM.apply(  # type: ignore[no-untyped-call]
        input, h0, c0, weight_ih, weight_hh, bias, reverse, product
    )
    return found


def gru(
    input: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    reverse: bool,
    product: str,
) -> tuple[Tensor, Tensor]:
    """Output (time, batch, hidden), and the final h."""
    found: tuple[Tensor, Tensor] = _GRU.apply(  # type: ignore[no-untyped-call]
        input, h0, weight_ih, weight_hh, bias_ih, bias_hh, reverse, product
    )
    return found


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        input, h0, c0, weight_ih, weight_hh, bias, reverse, product = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        with products(product):
            projected = F.linear(input, weight_ih, bias)
        output, cells = (input.new_empty(time, batch, units) for _ in range(2))
        h, c = torch.empty_like(h0), torch.empty_like(c0)
        sizes = Sizes(time, batch, reverse)
        at = LSTMForward(*pointers(h0, c0, output, h, c, cells, projected))
        _launch("forward", "lstm", product, weight_hh, sizes, pointer(projected), at)
        ctx.save_for_backward(input, h0, c0, weight_ih, weight_hh, output, cells, projected)
        ctx.has_bias, ctx.reverse, ctx.product = bias is not None, reverse, product
        return output, h, c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_output: Tensor, d_h: Tensor, d_c: Tensor) -> tuple[Any, ...]:
        input, h0, c0, weight_ih, weight_hh, output, cells, saved = ctx.saved_tensors
        time, batch, _ = output.shape
        d_input = torch.empty_like(saved)
        d_h0, d_c0 = torch.empty_like(h0), torch.empty_like(c0)
        d_output, d_h, d_c = d_output.contiguous(), d_h.contiguous(), d_c.contiguous()
        at = LSTMBackward(*pointers(d_output, d_h, d_c, c0, cells, saved, d_input, d_h0, d_c0))
        sizes = Sizes(time, batch, ctx.reverse)
        _launch("backward", "lstm", ctx.product, weight_hh, sizes, at)
        with products(ctx.product):
            d_weight_hh = _over_time(d_input, output, h0, ctx.reverse)
            d_weight_ih, d_bias = _projection(d_input, input)
            d_x = d_input @ weight_ih if ctx.needs_input_grad[0] else None
        return (
            d_x,
            d_h0,
            d_c0,
            d_weight_ih,
            d_weight_hh,
            d_bias if ctx.has_bias else None,
            None,
            None,
        )


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        input, h0, weight_ih, weight_hh, bias_ih, bias_hh, reverse, product = inputs
        time, batch, units = input.shape[0], input.shape[1], weight_hh.shape[1]
        bias = last = None
        if bias_ih is not None:
            # r and z see the sum of both biases; n's own is multiplied by r.
            bias = bias_ih + torch.cat((bias_hh[: 2 * units], torch.zeros_like(bias_hh[:units])))
            last = bias_hh[2 * units :].contiguous()
        with products(product):
            projected = F.linear(input, weight_ih, bias)
        output = input.new_empty(time, batch, units)
        saved = input.new_empty(time, batch, 4 * units)
        h = torch.empty_like(h0)
        sizes = Sizes(time, batch, reverse)
        at = GRUForward(*pointers(h0, last, output, h, saved))
        _launch("forward", "gru", product, weight_hh, sizes, pointer(projected), at)
        ctx.save_for_backward(input, h0, weight_ih, weight_hh, output, saved)
        ctx.has_bias, ctx.reverse, ctx.product = bias_ih is not None, reverse, product
        return output, h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_output: Tensor, d_h: Tensor) -> tuple[Any, ...]:
        input, h0, weight_ih, weight_hh, output, saved = ctx.saved_tensors
        time, batch, units = output.shape
        d_input = saved.new_empty(time, batch, 3 * units)
        d_product = saved.new_empty(time, batch, units)
        d_h0 = torch.empty_like(h0)
        d_output, d_h = d_output.contiguous(), d_h.contiguous()
        at = GRUBackward(*pointers(d_output, d_h, h0, output, saved, d_input, d_product, d_h0))
        sizes = Sizes(time, batch, ctx.reverse)
        _launch("backward", "gru", ctx.product, weight_hh, sizes, at)
        with products(ctx.product):
            d_weight_hh = torch.cat(
                (
                    _over_time(d_input[..., : 2 * units], output, h0, ctx.reverse),
                    _over_time(d_product, output, h0, ctx.reverse),
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
        return d_x, d_h0, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh, None, None


def _launch(
    name: str, unit: str, product: str, weight: Tensor, sizes: Sizes, *arguments: Any
) -> None:
    """`arguments` are what the kernel takes but the weights, lengths and sizes."""
    *before, at = arguments
    with torch.cuda.device(weight.device):
        launch = launcher(name, unit, product, weight, sizes.batch)
        launch(*before, pointer(weight), at, pointer(None), sizes)


def _over_time(d_gates: Tensor, output: Tensor, h0: Tensor, reverse: bool) -> Tensor:
    return recurrent_gradient(d_gates, output, h0, None, reverse)


def _projection(d_input: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    return projection_gradients(d_input.flatten(0, 1), input.flatten(0, 1))
