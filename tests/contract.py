"""What every engine is held to: any unit equals its own functions in float64."""

import torch

from rda.precision import state_dtype
from rda.scan import op, reference
from rda.scan.passes import Call, Weights
from rda.units.known import key_of


def drawn(unit, shape, dtype, *, starts=True, projects=True, device="cpu"):
    """A call with random tensors that need gradients; states are float32 or wider."""
    time, batch, width, lengths, reverse = shape
    torch.manual_seed(0)

    def tensor(*shape, dtype=dtype):
        made = torch.randn(*shape, dtype=dtype).div(shape[-1] ** 0.5)
        return made.to(device).requires_grad_()

    rows = len(unit.inputs) * width
    weights = Weights(
        tensor(rows, 3) if projects else None,
        tensor(rows) if projects else None,
        tensor(len(unit.recurrent) * width, width),
        tuple(tensor(width) for _ in unit.weights),
    )
    start = (
        tuple(tensor(batch, width, dtype=state_dtype(dtype)) for _ in unit.parts) if starts else ()
    )
    input = tensor(time, batch, 3 if projects else rows)
    lengths = None if lengths is None else lengths.to(device)
    return Call(unit, key_of(unit), input, weights, start, lengths, reverse)


def in_float64(call):
    """The same call in float64."""
    return call.with_tensors(
        [x if x is None else x.detach().double().requires_grad_() for x in call.tensors]
    )


def with_gradients(call, results):
    """The results, and the gradients of all that the call was given."""
    torch.manual_seed(1)
    directions = [torch.randn_like(x, dtype=torch.float32).to(x.dtype) for x in results]
    given = [x for x in call.tensors if x is not None]
    found = torch.autograd.grad(results, given, directions, allow_unused=True)
    return [*results, *(torch.zeros(()) if x is None else x for x in found)]


def assert_equal_to_reference(call, engine, tolerance, precision="fp32"):
    """Largest errors, relative to the largest number of each tensor."""
    found = with_gradients(call, op.scan(call, engine, precision))
    wide = in_float64(call)
    exact = with_gradients(wide, reference.scan(wide))
    for ours, theirs in zip(found, exact, strict=True):
        ours, theirs = ours.detach().double(), theirs.detach()
        finite = theirs.isfinite()  # a row without steps and without a start has no weight
        assert torch.equal(ours[~finite], theirs[~finite])
        scale = theirs[finite].abs().max().clamp(min=1.0)
        assert (ours - theirs)[finite].abs().max() / scale < tolerance
