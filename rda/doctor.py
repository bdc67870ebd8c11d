"""Reports what this machine can run, which engine `auto` takes, and whether each one is right."""

import platform
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rda import __version__
from rda.activations import Choices
from rda.equations import LogState
from rda.files import CacheError, CacheWarning, cache_folder, code_folder, exposure
from rda.scan.cpu import build, native
from rda.scan.cuda.launching import Layer
from rda.scan.dispatch import EngineWarning, scan, select
from rda.scan.engines import ENGINES, Work
from rda.units.known import unit_of

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Largest relative error against the reference in float64. bfloat16 keeps 8 bits."""


def examine(
    choices: Choices, units: int, batch: int, time: int, device: str, dtype: torch.dtype
) -> bool:
    """Print the report; returns False if an engine that can serve gives wrong results."""
    input = torch.empty(time, batch, choices.input_blocks * units, device=device, dtype=dtype)
    weight = torch.empty(choices.recurrent_blocks * units, units, device=device, dtype=dtype)
    layer = Layer.on(input, units, choices.recurrent_blocks, batch)
    work = Work(layer, *unit_of(choices), (input, weight))
    tolerance = TOLERANCES[dtype]
    print(f"rda {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(
        f"machine     {platform.system()} {platform.machine()}, {torch.get_num_threads()} threads"
    )
    print(f"GPU         {_gpu()}")
    print(f"compiler    {_or_reason(lambda: ' '.join(build.compiler()))}")
    print(f"flags       {_or_reason(lambda: ' '.join(build.flags()))}")
    print(f"cache       {_or_reason(_cache)}")
    print(f"CPU kernel  {_kernel()}")
    print()
    healthy = True
    for name, engine in ENGINES.items():
        obstacle = engine.obstacle(work)
        if obstacle is not None:
            print(f"{name:<11} cannot serve: {obstacle.reason}")
            continue
        error = self_test(name, choices, device, dtype)
        healthy &= error < tolerance
        verdict = "right" if error < tolerance else "WRONG"
        print(f"{name:<11} {verdict}, relative error {error:.0e}: {engine.description}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EngineWarning)  # the lines above have said it
        chosen = select("auto", input, choices, weight)
    kind = "" if dtype == torch.float32 else f" in {str(dtype).removeprefix('torch.')}"
    shape = f"{units} units, batch {batch}, {time} steps on {device}{kind}"
    print(f"\n{shape}: engine {chosen.name}\n  because: {chosen.reason}")
    return healthy


def self_test(engine: str, choices: Choices, device: str, dtype: torch.dtype) -> float:
    """The largest relative error of output, states and gradients, over a few kinds of work.

    float32 is tested without tf32, whatever torch's settings are: the errors of tf32 are not
    faults, but they would hide faults. In bfloat16 the sizes are multiples of 4 units, because
    the engine `grid` takes no others.
    """
    ragged = torch.tensor([20, 3, 0, 11, 20], device=device)
    few, many = (37, 130) if dtype == torch.float32 else (40, 132)
    if engine == "block":  # it serves small layers only, and bfloat16 up to 32 units
        few, many = (37, 128) if dtype == torch.float32 else (20, 32)
    error = partial(_error, engine, choices, device, dtype)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return max(
            error((20, 5, few), ragged, reverse=False),
            error((20, 5, few), ragged, reverse=True),
            error((9, 1, many), None, reverse=False),
            error((2, 2, few), None, reverse=False),
        )


def _error(
    engine: str,
    choices: Choices,
    device: str,
    dtype: torch.dtype,
    shape: tuple[int, int, int],
    lengths: Tensor | None,
    reverse: bool,
) -> float:
    time, batch, units = shape
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    tensors = [
        draw(time, batch, 6),
        draw(choices.recurrent_blocks * units, units) / units**0.5,
        draw(choices.input_blocks * units, 6) / 6**0.5,
        draw(choices.input_blocks * units),
        draw(batch, units),
        draw(batch, units),
    ]
    if choices.attention == "relu":
        # At ReLU's kink, rounding decides whether a step counts: keep every logit away from it.
        attention = slice(2 * units, 3 * units)
        tensors[3][attention] = 6.0
        tensors[2][attention] *= 0.1
        tensors[1][units : 2 * units] *= 0.1
    found: list[list[Tensor]] = []
    tensors[:4] = [tensor.to(dtype) for tensor in tensors[:4]]  # states are always float32
    for name in (engine, "reference"):
        wide = torch.float64 if found else None
        x, w, input_weight, bias, r, l = ready = [
            tensor.to(device, wide or tensor.dtype).requires_grad_() for tensor in tensors
        ]
        output, final = scan(
            x, w, LogState(r, l), choices, input_weight=input_weight, bias=bias, lengths=lengths,
            reverse=reverse, engine=name,
        )  # fmt: skip
        loss = output.double().square().sum() + final.r.sum() + final.l.sum()
        gradients = torch.autograd.grad(loss, ready)
        found.append([output.detach(), final.r.detach(), final.l.detach(), *gradients])
    return max(
        float((mine.double() - exact).norm() / exact.norm())
        for mine, exact in zip(*found, strict=True)
    )


def _or_reason(question: Callable[[], str]) -> str:
    try:
        return question()
    except (build.BuildError, CacheError) as error:
        return f"none: {error}"


def _cache() -> str:
    folder = cache_folder()
    reason = exposure(folder)
    if reason is None:
        return f"{folder}, private"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # this line says it
        return f"{code_folder()}; {folder} is not used for code: {reason}"


def _gpu() -> str:
    if not torch.cuda.is_available():
        return "none that torch can use"
    return torch.cuda.get_device_name()


def _kernel() -> str:
    """What the kernel is, or why there is none; a failure that is remembered is tried again."""
    failure = build.forget_failures()
    if failure is not None:
        print(f"CPU kernel  failed before: {failure}; now it is tried again")
    found = native.compiled(unit_of(Choices())[1], torch.float32)
    if isinstance(found, str):
        return f"none: {found}"
    library = found.library
    threads = "with threads" if library.rda_has_threads() else "on one thread (no OpenMP)"
    return f"compiled, vectors of {8 * library.rda_vector_bytes()} bits, {threads}"
