"""The recurrence in plain PyTorch, with buffers made once and its backward written out.

Serves any device, and the CPU where no compiler is found. The formulas are those of
docs/kernels.md; each line is one operation on a whole batch.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices, log_softplus, softplus
from rda.equations import LogState
from rda.scan.fused import Trace


def forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    start: LogState,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
) -> Trace:
    projected = input if input_weight is None else F.linear(input, input_weight, bias)
    time, batch, units = projected.shape[0], projected.shape[1], weight.shape[1]
    sequence = (time, batch, units)
    running = _running(lengths, time)
    averages = projected.new_empty(sequence)
    # The input's projection is read once, so what is saved may take its place.
    own = torch.empty_like(projected) if input_weight is None and keep else projected
    saved = own if keep else projected.new_empty(0)
    has_slopes = keep and choices.attention != "exp"
    slopes = projected.new_empty(sequence if has_slopes else 0)

    r, l = start.r.clone(), start.l.clone()
    h = choices.f_h(r)
    transposed = weight.t()
    gates = projected.new_empty(batch, weight.shape[0])
    z, s = torch.empty_like(r), torch.empty_like(r)
    for t in reversed(range(time)) if reverse else range(time):
        u = projected[t, :, :units]
        torch.addmm(projected[t, :, units:], h, transposed, out=gates)
        g, a, *gamma = gates.split(units, dim=1)
        g.tanh_()
        torch.mul(u, g, out=z)
        alpha, slope = _log_attention(a, str(choices.attention), has_slopes)
        kept = l if not gamma else l + F.logsigmoid(gamma[0])
        p = alpha - kept
        if choices.attention == "relu":
            p.masked_fill_(alpha == -torch.inf, -torch.inf)
        torch.sigmoid(p, out=s)
        new_r, new_l = torch.lerp(r, z, s), torch.logaddexp(kept, alpha)
        if keep:
            saved[t, :, :units] = u
            saved[t, :, units : 2 * units] = g
            saved[t, :, 2 * units : 3 * units] = p
            if gamma:
                torch.sigmoid(gamma[0].neg_(), out=saved[t, :, 3 * units :])
            if slope is not None:
                slopes[t] = slope
        if running is not None:
            new_r, new_l = torch.where(running[t], new_r, r), torch.where(running[t], new_l, l)
        r, l = new_r, new_l
        h = choices.f_h(r)
        averages[t] = r
    if running is not None:
        averages.masked_fill_(~running, 0.0)
    output = choices.f_o(choices.f_h(averages))
    if output is averages or not keep:
        averages = projected.new_empty(0)
    return Trace(output, r, l, averages, saved, slopes)


def backward(
    d_output: Tensor,
    d_final: LogState,
    weight: Tensor,
    r0: Tensor,
    trace: Trace,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    time, _, units = trace.output.shape
    running = _running(lengths, time)
    averages = trace.averages if trace.averages.numel() else trace.output
    through_h = d_output
    if choices.output == "tanh":
        through_h = d_output * (1 - trace.output.square())
    d_projected = torch.empty_like(trace.saved)
    d_r, d_l = d_final.r.clone(), d_final.l.clone()
    d_h = torch.zeros_like(d_r)
    e = torch.empty_like(d_r)
    for t in range(time) if reverse else reversed(range(time)):
        u, tanh_g, p, *keep_slope = trace.saved[t].split(units, dim=1)
        before = t + 1 if reverse else t - 1
        r_before = averages[before] if 0 <= before < time else r0
        if running is not None and reverse and 0 <= before < time:
            r_before = torch.where(running[before], r_before, r0)
        torch.add(through_h[t], d_h, out=e)
        if choices.hidden == "tanh":
            e.mul_(1 - averages[t].tanh().square_())
        e.add_(d_r)
        s = torch.sigmoid(p)
        rest = torch.sigmoid(-p)
        pull = torch.addcmul(-r_before, u, tanh_g).mul_(e)
        d_z = e * s
        d_a = torch.addcmul(d_l, pull, rest).mul_(s)
        d_kept = torch.addcmul(d_l, pull, s, value=-1).mul_(rest)
        if trace.slopes.numel():
            d_a.mul_(trace.slopes[t])
        to = d_projected[t].split(units, dim=1)
        torch.mul(d_z, tanh_g, out=to[0])
        torch.mul(d_z.mul_(u), 1 - tanh_g.square(), out=to[1])
        to[2].copy_(d_a)
        if keep_slope:
            torch.mul(d_kept, keep_slope[0], out=to[3])
        new_d_r = e * rest
        if running is not None:
            d_projected[t].masked_fill_(~running[t], 0.0)
            new_d_r = torch.where(running[t], new_d_r, d_r)
            d_kept = torch.where(running[t], d_kept, d_l)
            product = d_projected[t, :, units:] @ weight
            d_h = torch.where(running[t], product, d_h)
        else:
            torch.mm(d_projected[t, :, units:], weight, out=d_h)
        d_r, d_l = new_d_r, d_kept
    if choices.hidden == "tanh":
        d_h.mul_(1 - r0.tanh().square_())
    return d_projected, d_r + d_h, d_l


def _running(lengths: Tensor | None, time: int) -> Tensor | None:
    """(time, batch, 1): whether a row's sequence still goes on."""
    if lengths is None:
        return None
    return (torch.arange(time, device=lengths.device)[:, None] < lengths)[..., None]


def _log_attention(x: Tensor, attention: str, has_slope: bool) -> tuple[Tensor, Tensor | None]:
    """Log a and, where it is wanted, its derivative."""
    if attention == "exp":
        return x, None
    if attention == "sigmoid":
        return F.logsigmoid(x), torch.sigmoid(-x) if has_slope else None
    if attention == "softplus":
        # Below -20 the derivative is 1 to within e^-20 / 2, and softplus itself may be 0.
        slope = torch.sigmoid(x) / softplus(x)
        tail = 1 - x.exp() / 2
        return log_softplus(x), torch.where(x < -20, tail, slope) if has_slope else None
    nothing = x < torch.finfo(x.dtype).tiny
    safe = torch.where(nothing, 1.0, x)
    slope = safe.reciprocal().masked_fill_(nothing, 0.0)
    return safe.log().masked_fill_(nothing, -torch.inf), slope if has_slope else None
