"""MNIST one pixel at a time, in reading order or through one fixed permutation."""

from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from rda.tasks.settings import MNIST, PermutedMNIST
from rda.tasks.task import Batch, Classification, Part

IMAGE_HEADER = 16
LABEL_HEADER = 8


class MNISTTask(Classification):
    """Pixels / 255; eleven twelfths of the training images train, the rest validate."""

    input_size = 1
    output_size = 10
    chance = 0.1135
    """The share of the commonest digit, 1, in the test images."""

    def __init__(self, settings: MNIST, device: torch.device, files: Mapping[str, bytes]) -> None:
        super().__init__(settings, device)
        pixels, digits = self._read(files, "train", settings)
        kept = settings.images - settings.images // 12
        self.parts = {
            "train": (pixels[:kept], digits[:kept]),
            "validation": (pixels[kept : settings.images], digits[kept : settings.images]),
            "test": self._read(files, "t10k", settings),
        }
        self._order = torch.empty(0, dtype=torch.int64, device=device)
        self._used = 0

    def _read(
        self, files: Mapping[str, bytes], part: str, settings: MNIST
    ) -> tuple[Tensor, Tensor]:
        images = _numbers(files[f"{part}-images-idx3-ubyte"], IMAGE_HEADER)
        digits = _numbers(files[f"{part}-labels-idx1-ubyte"], LABEL_HEADER)
        squares = images.view(-1, 1, 28, 28)
        if settings.pool > 1:
            squares = F.avg_pool2d(squares.float(), settings.pool).round().to(torch.uint8)
        pixels = squares.flatten(1)
        if isinstance(settings, PermutedMNIST):
            generator = torch.Generator().manual_seed(settings.permutation_seed)
            pixels = pixels[:, torch.randperm(pixels.shape[1], generator=generator)]
        return pixels.to(self.device), digits.long().to(self.device)

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        pixels, digits = self.parts["train"]
        batch_size = min(batch_size, len(digits))
        if self._used + batch_size > len(self._order):
            self._order = torch.randperm(len(digits), generator=generator, device=self.device)
            self._used = 0
        chosen = self._order[self._used : self._used + batch_size]
        self._used += batch_size
        return _as_batch(pixels[chosen], digits[chosen])

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        pixels, digits = self.parts[part]
        for some in zip(pixels.split(batch_size), digits.split(batch_size), strict=True):
            yield _as_batch(*some)

    def position(self) -> dict[str, Tensor]:
        return {"order": self._order, "used": torch.tensor(self._used)}

    def move_to(self, position: dict[str, Tensor]) -> None:
        self._order = position["order"].to(self.device)
        self._used = int(position["used"])


def _numbers(content: bytes, header: int) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header)


def _as_batch(pixels: Tensor, digits: Tensor) -> Batch:
    return Batch((pixels.t().float() / 255).unsqueeze(-1), digits)
