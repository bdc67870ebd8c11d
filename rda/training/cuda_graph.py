"""A function on a GPU, recorded as a CUDA graph and replayed with other values."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class CudaGraph:
    """A function of tensors. The tensors of every call must have the shapes of the first.

    What it returns is overwritten by the next call.
    """

    def __init__(
        self, function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor]
    ) -> None:
        self._inputs = [tensor.clone() for tensor in tensors]
        self._device = tensors[0].device
        with torch.cuda.device(self._device):
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._outputs = function(*self._inputs)

    def __call__(self, *tensors: Tensor) -> Sequence[Tensor]:
        for mine, given in zip(self._inputs, tensors, strict=True):
            mine.copy_(given)
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._outputs
