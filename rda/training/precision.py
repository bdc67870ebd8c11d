"""The precision of torch's float32 products while a run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """float32 products as such, or as tf32 where a GPU has it; put back as it was after."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
