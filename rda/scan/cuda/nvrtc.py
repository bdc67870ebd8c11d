"""Compiles CUDA text to machine code with NVRTC, which is part of torch's CUDA builds.

The machine code is kept in the cache.
"""

import ctypes
import functools
import glob
import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from rda.files import CacheError, code_folder, exposure, make_private, sweep, write_atomically

SECONDS_UNTIL_ABANDONED = 3600
"""Writing a file takes less: whoever left an older temporary file was killed."""


class CompileError(RuntimeError):
    """The kernel cannot be compiled; the message is the reason in one line."""


@functools.cache
def library() -> ctypes.CDLL:
    """libnvrtc of the CUDA version that torch was built for."""
    version = torch.version.cuda
    if version is None:
        raise CompileError("this build of torch has no CUDA")
    name = f"libnvrtc.so.{version.partition('.')[0]}"
    places = [name]
    for folder in sys.path:
        places += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", name)))
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        places += [os.path.join(root, "lib64", name)] if root else []
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise CompileError(f"{name} is not found; torch's CUDA packages have it")


def compiled(source: str, constants: Mapping[str, int | str], capability: tuple[int, int]) -> bytes:
    """The machine code, from the cache or compiled now."""
    # wgmma exists on Hopper only, and needs the variant of the architecture that ends in "a".
    architecture = "90a" if capability == (9, 0) else f"{capability[0]}{capability[1]}"
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17"]
    options += ["--device-as-default-execution-space"]
    options += [f"-D{name}={value}" for name, value in constants.items()]
    key = hashlib.sha256("\0".join([source, *options, _version()]).encode()).hexdigest()[:24]
    found = _cached(key)
    if found is None:
        found = _compile(source, options)
        with suppress(OSError, CacheError):  # without a cache every process compiles for itself
            path = _cache_file(key)
            make_private(path.parent)
            sweep(path.parent, ".cuda-*.tmp", SECONDS_UNTIL_ABANDONED)
            write_atomically(path, hashlib.sha256(found).digest() + found, mode=0o600)
    return found


def _cache_file(key: str) -> Path:
    return code_folder() / f"cuda-{key}.cubin"


def _cached(key: str) -> bytes | None:
    """The machine code that this user once compiled, or None if it is not there as a whole."""
    try:
        path = _cache_file(key)
        content = b"" if exposure(path) else path.read_bytes()
    except (OSError, CacheError):
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _compile(source: str, options: list[str]) -> bytes:
    nvrtc = library()
    program = ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"rda.cu", 0, None, None)
    )
    try:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), words) != 0:
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            complaint = next((x for x in log.decode().splitlines() if "error" in x), "no reason")
            raise CompileError(f"NVRTC cannot compile the kernel: {complaint}")
        return _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of: Any, read: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(read(program, content))
    return content.raw


def _check(code: int) -> None:
    if code != 0:
        raise CompileError(f"NVRTC failed with error {code}")
