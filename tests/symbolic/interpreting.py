"""A unit over time by its derived gradients, in plain PyTorch: what an engine does."""

import torch

from rda.scan.ragged import running
from rda.symbolic.expressions import as_expression, evaluate, symbol
from rda.symbolic.gradient import D_HIDDEN, D_OUTPUT


def forward(of, work):
    """The output and the final state, and for every step the values that are kept of it."""
    traced = of.traced
    leaves = [leaf for group in traced[:4] for leaf in group.values()]
    going_on = None if work.lengths is None else running(work.lengths, work.projected)
    state = of.unit.state_type(*work.start)
    outputs, kept = {}, {}
    for t in work.times:
        recurrent = of.unit.hidden(state) @ work.recurrent_weight.t()
        x, h = work.projected[t].chunk(len(traced.x), -1), recurrent.chunk(len(traced.h), -1)
        values = dict(zip(leaves, (*x, *h, *state, *work.weights), strict=True))
        stepped = evaluate(traced.after.values(), values)
        (outputs[t],) = evaluate([traced.output], values)
        kept[t] = dict(zip(of.kept.values, evaluate(of.kept.values, values), strict=True))
        before, state = state, of.unit.state_type(*stepped)
        for name, part in traced.after.items():
            if name in of.kept.sequences or part is traced.output:
                kept[t][part] = getattr(state, name)
                kept[t][traced.before[name]] = getattr(before, name)
        if going_on is not None:
            outputs[t] = outputs[t] * going_on[t]
            pairs = zip(state, before, strict=True)
            state = of.unit.state_type(*(torch.where(going_on[t], new, old) for new, old in pairs))
    return torch.stack([outputs[t] for t in range(len(outputs))]), tuple(state), kept


def backward(of, work, output, kept, d_output, d_final):
    """The gradients of all blocks, (time, blocks, batch, hidden), and those of the start."""
    traced, gradient = of.traced, of.gradient
    units = work.recurrent_weight.shape[1]
    d_state = dict(zip(traced.after, d_final, strict=True))
    d_hidden = torch.zeros_like(output[0])
    if traced.hidden_part is not None:
        d_hidden = d_state[traced.hidden_part]
    going_on = None if work.lengths is None else running(work.lengths, work.projected)
    x_only, of_h = len(of.gates.x_only), len(work.recurrent_weight) // units
    rows = work.recurrent_weight.view(of_h, units, units)[list(of.orders[1])]
    made = {}
    for t in reversed(work.times):
        values = {traced.output: output[t], D_OUTPUT: d_output[t], D_HIDDEN: d_hidden, **kept[t]}
        values |= {symbol(f"d.{name}"): part for name, part in d_state.items()}
        values |= dict(zip(traced.weights.values(), work.weights, strict=True))
        runs = torch.ones_like(output[t][:, :1], dtype=bool) if going_on is None else going_on[t]
        blocks = [torch.as_tensor(one) * runs for one in evaluate(of.blocks, values)]
        made[t] = torch.stack([torch.broadcast_to(one, output[t].shape) for one in blocks])
        before = evaluate(gradient.before.values(), values)
        carried = evaluate([of.carried], values)[0]
        returned = carried + torch.einsum("kbi,kij->bj", made[t][x_only : x_only + of_h], rows)
        d_hidden = torch.where(runs, returned, d_hidden)
        d_state = {
            name: torch.where(runs, torch.as_tensor(new, dtype=output.dtype), d_state[name])
            for name, new in zip(d_state, before, strict=True)
        }
    values = dict(zip(traced.before.values(), work.start, strict=True)) | {D_HIDDEN: d_hidden}
    values |= {symbol(f"d.{name}"): part for name, part in d_state.items()}
    d_start = evaluate(of.start_gradient.values(), values)
    nothing = as_expression(0.0)
    assert all(one is not nothing for one in of.start_gradient.values())
    return torch.stack([made[t] for t in range(len(made))]), d_start
