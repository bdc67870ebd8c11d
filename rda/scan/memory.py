"""Large buffers on huge pages, where the system has them.

A fresh buffer is faulted in page by page as it is first written, and at 4 KiB a page that costs
more than filling it.
"""

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable

from torch import Tensor

WORTH_IT = 1 << 20


def empty(like: Tensor, *shape: int) -> Tensor:
    """`like.new_empty(shape)`, on huge pages where it is large and in main memory."""
    made = like.new_empty(shape)
    if made.device.type == "cpu" and made.nbytes >= WORTH_IT:
        start = -(-made.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        _advise()(start, made.data_ptr() + made.nbytes - start)
    return made


@functools.cache
def _advise() -> Callable[[int, int], object]:
    """Only advice: where it cannot be given, nothing is lost but time."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if not sys.platform.startswith("linux") or advice is None:
        return lambda start, size: None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return lambda start, size: madvise(start, size, advice)
