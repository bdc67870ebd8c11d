"""The recurrence in plain PyTorch, with preallocated buffers and a hand-written backward pass.

It runs on any device, and on CPUs without a compiler. The formulas are those of docs/kernels.md.
Each line is one operation on a whole batch.
"""

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices, softplus
from rda.equations import LogState
from rda.scan.kernels import FinalGradient, Kept, Trace, plain_layout
from rda.scan.memory import empty
from rda.scan.ragged import running

products = nullcontext
layout = plain_layout
takes_no_start = False


def forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    start: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
) -> Trace:
    assert start is not None
    time, batch, units = input.shape[0], input.shape[1], weight.shape[1]
    blocks = _project(input, input_weight, bias, choices.input_blocks)
    averages = empty(blocks, time, batch, units)
    has_slopes = keep and choices.attention != "exp"
    slopes = blocks.new_empty((time, batch, units) if has_slopes else 0)
    going_on = None if lengths is None else running(lengths, input)
    final = _forward_loop(
        blocks, weight, start, choices, going_on, reverse, averages, slopes if has_slopes else None
    )
    if going_on is not None:
        averages.masked_fill_(~going_on, 0.0)
    output = averages
    for function in (choices.hidden, choices.output):
        if function == "tanh":
            output = torch.tanh(output, out=empty(averages, time, batch, units))
    if output is averages or not keep:
        averages = blocks.new_empty(0)
    saved = blocks.view(time, batch, len(blocks) * units) if keep else blocks.new_empty(0)
    return Trace(output, *final, averages, saved, slopes)


def _forward_loop(
    blocks: Tensor,
    weight: Tensor,
    start: LogState,
    choices: Choices,
    going_on: Tensor | None,
    reverse: bool,
    averages: Tensor,
    slopes: Tensor | None,
) -> LogState:
    """Forward over time. It overwrites the projections with u, tanh g, p, sigma(-gamma~)."""
    u, g, a, *gamma = blocks
    time, batch, units = u.shape
    r, l = start
    h = choices.f_h(r)
    transposed = weight.t()
    product = u.new_empty(batch, weight.shape[0])
    z, s = torch.empty_like(r), torch.empty_like(r)
    for t in reversed(range(time)) if reverse else range(time):
        torch.mm(h, transposed, out=product)
        for block, recurrent in zip(blocks[1:], product.split(units, dim=1), strict=True):
            block[t].add_(recurrent)
        torch.mul(u[t], g[t].tanh_(), out=z)
        alpha = choices.log_f_a(a[t])
        if slopes is not None:
            slopes[t] = _attention_slope(a[t], str(choices.attention))
        kept = l
        if gamma:
            kept = l + F.logsigmoid(gamma[0][t])
            gamma[0][t].neg_().sigmoid_()
        new_l = torch.logaddexp(kept, alpha)
        weightless = alpha == -torch.inf if choices.attention == "relu" else None
        p = torch.sub(alpha, kept, out=a[t])
        if weightless is not None:
            p.masked_fill_(weightless, -torch.inf)
        new_r = torch.lerp(r, z, torch.sigmoid(p, out=s), out=averages[t])
        if going_on is not None:
            new_r, new_l = torch.where(going_on[t], new_r, r), torch.where(going_on[t], new_l, l)
        r, l = new_r, new_l
        h = choices.f_h(r)
    return LogState(torch.stack((r,)), torch.stack((l,)))


def backward(
    d_output: Tensor,
    d_final: FinalGradient,
    weight: Tensor,
    r0: Tensor | None,
    kept: Kept,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    assert r0 is not None
    time, batch, units = kept.output.shape
    going_on = None if lengths is None else running(lengths, kept.output)
    blocks = kept.saved.view(choices.input_blocks, time, batch, units)
    averages = kept.averages if kept.averages.numel() else kept.output
    d_projected = empty(kept.saved, *kept.saved.shape)
    slopes = kept.slopes if kept.slopes.numel() else None
    d_start = _backward_loop(
        d_output, d_final.filled(r0), weight, r0, kept.output, averages, blocks, slopes, choices,
        going_on, reverse, d_projected,
    )  # fmt: skip
    return d_projected, *d_start


def _backward_loop(
    d_output: Tensor,
    d_final: LogState,
    weight: Tensor,
    r0: Tensor,
    output: Tensor,
    averages: Tensor,
    blocks: Tensor,
    slopes: Tensor | None,
    choices: Choices,
    going_on: Tensor | None,
    reverse: bool,
    d_projected: Tensor,
) -> LogState:
    """Backward over time. It fills `d_projected` and returns the gradient of the start."""
    time, _, units = output.shape
    u, tanh_g, p, *keep_slope = blocks
    d_r, d_l = d_final
    d_h = torch.zeros_like(d_r)
    for t in range(time) if reverse else reversed(range(time)):
        before = t + 1 if reverse else t - 1
        r_before = averages[before] if 0 <= before < time else r0
        if going_on is not None and reverse and 0 <= before < time:
            r_before = torch.where(going_on[before], r_before, r0)
        e = _before(choices.output, d_output[t], output[t]) + d_h
        if choices.hidden == "tanh":
            e = _before("tanh", e, averages[t].tanh())
        e.add_(d_r)
        s = torch.sigmoid(p[t])
        rest = torch.sigmoid(-p[t])
        pull = (u[t] * tanh_g[t]).sub_(r_before).mul_(e)
        d_z = e * s
        d_kept = torch.addcmul(d_l, pull, s, value=-1).mul_(rest)
        d_u, d_g, d_a, *d_gamma = d_projected[t].split(units, dim=1)
        torch.mul(d_z, tanh_g[t], out=d_u)
        d_z.mul_(u[t])
        torch.addcmul(d_z, d_z, tanh_g[t].square(), value=-1, out=d_g)
        torch.mul(torch.addcmul(d_l, pull, rest), s, out=d_a)
        if slopes is not None:
            # A slope of zero means an attention of zero: no gradient, even if `pull` is infinite.
            d_a.mul_(slopes[t]).masked_fill_(slopes[t] == 0, 0.0)
        if d_gamma:
            torch.mul(d_kept, keep_slope[0][t], out=d_gamma[0])
        d_r_before = e.mul_(rest)
        if going_on is not None:
            d_projected[t].masked_fill_(~going_on[t], 0.0)
            d_r_before = torch.where(going_on[t], d_r_before, d_r)
            d_kept = torch.where(going_on[t], d_kept, d_l)
            d_h = torch.where(going_on[t], d_projected[t, :, units:] @ weight, d_h)
        else:
            torch.mm(d_projected[t, :, units:], weight, out=d_h)
        d_r, d_l = d_r_before, d_kept
    return LogState(d_r + _before(choices.hidden, d_h, r0.tanh()), d_l.clone())


def _project(
    input: Tensor, input_weight: Tensor | None, bias: Tensor | None, blocks: int
) -> Tensor:
    """W x + b as (blocks, time, batch, hidden), so that each step of a block is contiguous."""
    time, batch, features = input.shape
    if input_weight is None:
        split = input.view(time, batch, blocks, features // blocks)
        # Always a copy, because the loop writes into it.
        return split.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format)
    units = input_weight.shape[0] // blocks
    made = empty(input, blocks, time * batch, units)
    flat = input.reshape(time * batch, features)
    biases = input.new_zeros(len(input_weight)) if bias is None else bias
    for k, rows in enumerate(input_weight.chunk(blocks)):
        torch.addmm(biases.chunk(blocks)[k], flat, rows.t(), out=made[k])
    return made.view(blocks, time, batch, units)


def _before(function: object, gradient: Tensor, value: Tensor) -> Tensor:
    """The gradient of the argument of tanh (or the identity), from that of its `value`."""
    if function == "identity":
        return gradient
    return torch.addcmul(gradient, gradient, value.square(), value=-1)


def _attention_slope(x: Tensor, attention: str) -> Tensor:
    """The derivative of log f_a for an f_a other than exp."""
    if attention == "sigmoid":
        return torch.sigmoid(-x)
    if attention == "softplus":
        # Below -20 softplus itself may be 0, and the derivative is 1 - e^x / 2 exactly.
        return torch.where(x < -20, 1 - x.exp() / 2, torch.sigmoid(x) / softplus(x))
    nothing = x < torch.finfo(x.dtype).tiny
    return torch.where(nothing, 1.0, x).reciprocal().masked_fill_(nothing, 0.0)
