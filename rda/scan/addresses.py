"""Structs of addresses, as kernels take them."""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from torch import Tensor

Given = Tensor | Sequence[Tensor | None] | None


class Addresses(ctypes.Structure):
    """Pointers, and arrays of them, to tensors."""

    _counts: ClassVar[Mapping[str, int]]
    _packing: ClassVar[struct.Struct]

    @classmethod
    def of(cls, **given: Given) -> Self:
        """The addresses of tensors by field; None, or nothing, is null."""
        found: list[int] = []
        for name, count in cls._counts.items():
            each = given.get(name)
            if each is None:
                found += (0,) * (count or 1)
            elif isinstance(each, Tensor):
                found.append(each.data_ptr())
            else:
                for one in each:
                    found.append(0 if one is None else one.data_ptr())
                found += (0,) * (count - len(each))
        return cls.from_buffer_copy(cls._packing.pack(*found))  # quicker than field by field

    @property
    def all(self) -> tuple[int, ...]:
        """Every address, in order."""
        return self._packing.unpack(self)


def structure(name: str, fields: Mapping[str, int]) -> type[Addresses]:
    """A struct with a pointer for each name or, where its number is not 0, so many of them."""
    pointer = ctypes.c_void_p
    members = [(field, pointer * count if count else pointer) for field, count in fields.items()]
    packing = struct.Struct(f"{sum(max(count, 1) for count in fields.values())}P")
    return type(
        name, (Addresses,), {"_fields_": members, "_counts": dict(fields), "_packing": packing}
    )
