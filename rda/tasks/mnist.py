"""MNIST one pixel at a time, in reading order or in one fixed random order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rda.settings import Limits, Recipe
from rda.tasks.registry import register
from rda.tasks.shuffling import Shuffled
from rda.tasks.task import Batch, Part, Preset, Source, Task

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

IMAGE_HEADER = 16
LABEL_HEADER = 8


@register
@dataclass(frozen=True)
class MNIST(Task):
    """Classify a handwritten digit from its pixels, one at a time."""

    name = "mnist"
    title = "MNIST"
    reference = "section 6.3, Table 3"
    dataset = "mnist"
    minima: ClassVar = {"pool": 1, "images": 24}
    input_size = 1
    output_size = 10
    chance = 0.1135  # the share of the commonest digit, 1, in the test images

    pool: int = 1
    """Average blocks of pool x pool pixels first; 28 must be divisible by it."""
    images: int = 60000
    """Use only the first N of the 60,000 images; the last twelfth of them is for validation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 28 % self.pool:
            raise ValueError(f"pool should divide 28, got {self.pool}")
        if self.images > 60000:
            raise ValueError(f"images should be 60000 or fewer, got {self.images}")

    @classmethod
    def full(cls) -> Preset:
        recipe = Recipe(evaluate_every=500, precision="tf32")
        return Preset(cls(), recipe, Limits(steps=45_000))  # where Appendix B's axis ends

    @classmethod
    def small(cls) -> Preset:
        recipe = Recipe(hidden_size=64, evaluate_every=100)
        return Preset(cls(pool=4, images=6000), recipe, Limits(steps=1000))

    def order(self, pixels: int) -> Tensor | None:
        """The order in which the pixels are read; None for reading order."""
        return None

    def open(self, device: torch.device, files: Mapping[str, bytes] | None = None) -> Source:
        return Images(self, device, files or {})


@register
@dataclass(frozen=True)
class PermutedMNIST(MNIST):
    """Classify a handwritten digit from its pixels in one fixed random order."""

    name = "mnist-permuted"
    title = "MNIST permuted"
    reference = "section 6.3, Table 4"
    minima: ClassVar = {**MNIST.minima, "permutation_seed": 0}

    permutation_seed: int = 1705
    """Seed for the order of the pixels."""

    @classmethod
    def full(cls) -> Preset:
        recipe = Recipe(evaluate_every=500, precision="tf32")
        return Preset(cls(), recipe, Limits(steps=25_000))  # where Appendix B's axis ends

    def order(self, pixels: int) -> Tensor | None:
        import torch

        generator = torch.Generator().manual_seed(self.permutation_seed)
        return torch.randperm(pixels, generator=generator)


class Images(Source):
    """Pixels divided by 255. The last twelfth of the training images is for validation."""

    def __init__(self, task: MNIST, device: torch.device, files: Mapping[str, bytes]) -> None:
        super().__init__(task, device)
        pixels, digits = self._read(files, "train", task)
        kept = task.images - task.images // 12
        self.parts = {
            "train": (pixels[:kept], digits[:kept]),
            "validation": (pixels[kept : task.images], digits[kept : task.images]),
            "test": self._read(files, "t10k", task),
        }
        self._shuffled = Shuffled(kept, device)

    def _read(self, files: Mapping[str, bytes], part: str, task: MNIST) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional as F

        images = _numbers(files[f"{part}-images-idx3-ubyte"], IMAGE_HEADER)
        digits = _numbers(files[f"{part}-labels-idx1-ubyte"], LABEL_HEADER)
        squares = images.view(-1, 1, 28, 28)
        if task.pool > 1:
            squares = F.avg_pool2d(squares.float(), task.pool).round().to(torch.uint8)
        pixels = squares.flatten(1)
        order = task.order(pixels.shape[1])
        if order is not None:
            pixels = pixels[:, order]
        return pixels.to(self.device), digits.long().to(self.device)

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        pixels, digits = self.parts["train"]
        chosen = self._shuffled.next(generator, batch_size)
        return _as_batch(pixels[chosen], digits[chosen])

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        pixels, digits = self.parts[part]
        for some in zip(pixels.split(batch_size), digits.split(batch_size), strict=True):
            yield _as_batch(*some)

    def position(self) -> dict[str, Tensor]:
        return self._shuffled.position()

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        self._shuffled.move_to(position)


def _numbers(content: bytes, header: int) -> Tensor:
    import torch

    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header)


def _as_batch(pixels: Tensor, digits: Tensor) -> Batch:
    return Batch((pixels.t().float() / 255).unsqueeze(-1), digits)
