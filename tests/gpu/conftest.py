"""All tests in this folder need a CUDA GPU; without one they are skipped, with that reason."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture(params=["fp32", "tf32", "bf16"])
def product(request, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", request.param != "fp32")
    return request.param


@pytest.fixture(params=["cuda", "graph"])
def engine(request):
    return request.param


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Fill the memory that the allocator hands out next with NaN."""
    if torch.cuda.is_available():
        for size in (1 << 16, 1 << 22, 1 << 26):
            torch.full((size,), float("nan"), device="cuda")
