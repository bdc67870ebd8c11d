"""Large buffers on huge pages, if the system supports them.

The first write to each page of a new buffer is a page fault. With pages of 4 KiB, the faults take
longer than filling the buffer.
"""

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable

from torch import Tensor

WORTH_IT = 1 << 20
"""Bytes from which huge pages save more time than the system call takes."""


def empty(like: Tensor, *shape: int) -> Tensor:
    """`like.new_empty(shape)`, on huge pages if it is large and in main memory."""
    made = like.new_empty(shape)
    if made.nbytes >= WORTH_IT and made.device.type == "cpu":
        start = -(-made.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        _advise()(start, made.data_ptr() + made.nbytes - start)
    return made


@functools.cache
def _advise() -> Callable[[int, int], object]:
    """madvise, or a function that does nothing on systems without it."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if not sys.platform.startswith("linux") or advice is None:
        return lambda start, size: None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return lambda start, size: madvise(start, size, advice)
