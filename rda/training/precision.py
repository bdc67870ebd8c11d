"""The precision of torch's float32 matrix products during a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Products in full float32, or in tf32 where a GPU has it; torch's switches are put back."""
    # The old switches also set these new ones. Restoring the old ones does not bring "none"
    # (inherited) back here, so these are restored separately.
    mkldnn: Any = torch.backends.mkldnn
    switches = (torch.backends.cuda.matmul, mkldnn.matmul)
    inherited = [switch.fp32_precision for switch in switches]
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        for switch, value in zip(switches, inherited, strict=True):
            switch.fp32_precision = value
