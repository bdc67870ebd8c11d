"""Structs of addresses, as kernels take them."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

Given = Tensor | Sequence[Tensor | None] | None


class Addresses(ctypes.Structure):
    """Filled with the addresses of tensors; None is null."""

    def __init__(self, **given: Given) -> None:
        super().__init__(**{name: _address(each) for name, each in given.items()})


def structure(name: str, fields: Mapping[str, int]) -> type[Addresses]:
    """A struct with a pointer for each name or, where its number is not 0, so many of them."""
    pointer = ctypes.c_void_p
    members = [(field, pointer * count if count else pointer) for field, count in fields.items()]
    return type(name, (Addresses,), {"_fields_": members})


def _address(given: Any) -> Any:
    if given is None:
        return None
    # Not isinstance(given, Tensor): where the answer is no, torch takes microseconds to give it.
    is_array = isinstance(given, list | tuple)
    return tuple(map(_address, given)) if is_array else given.data_ptr()
