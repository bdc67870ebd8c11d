"""The engine `block`: one kernel for the whole sequence, one block for one or two batch rows."""

from rda.scan.cuda import launching
from rda.scan.cuda.launching import Layer, Pass

LARGEST, WEIGHTS = 128, 384
"""Most units in a block, and most weights of one unit that the registers of its two lanes hold."""


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    if common := launching.obstacle(layer, 8, "an Ampere GPU or a later one"):
        return common
    if layer.precision == "bf16":
        return "it multiplies in float32, and this is bf16"
    if layer.units > LARGEST or layer.gates * _padded(layer.units) > WEIGHTS:
        largest = min(LARGEST, WEIGHTS // max(layer.gates, 1) // 16 * 16)
        return (
            f"a block holds {largest} units of {layer.gates} gates, "
            f"and this layer has {layer.units}"
        )
    return None


def _padded(units: int) -> int:
    """PADDED of block.cu: units rounded up to whole warps of 16 units."""
    return -(-units // 16) * 16


def run(work: Pass) -> None:
    """Queue a unit's forward or backward kernel."""
    device, batch = work.weight.device.index, work.sizes.batch
    rows = 1 if batch <= launching.multiprocessors(device) else 2
    constants = (("H", work.units), ("ROWS", rows))
    kernels = launching.module(
        device, "block", work.unit, work.precision, constants, ("forward", "backward")
    )
    kernels.launch(work.direction, -(-batch // rows), 2 * _padded(work.units), *work.arguments())
