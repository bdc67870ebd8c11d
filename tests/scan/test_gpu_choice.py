"""Which GPU engine would run, and how the whole GPU is laid out: arithmetic, on any machine."""

import pytest
import torch

from rda.scan.cuda import choosing, grid
from rda.scan.cuda.choosing import Layer, quickest
from rda.scan.cuda.grid import SHARED_BYTES, WIDEST

H200 = {2: 66, 3: 39, 4: 30}
"""Clusters of 2, 3 and 4 blocks that an H200 has room for."""


@pytest.fixture
def h200(monkeypatch):
    """As if this machine had one; tensors are on the CPU all the same."""
    monkeypatch.setattr(grid, "_clusters_at_once", lambda device, cluster: H200[cluster])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr("rda.scan.cuda.launching.obstacle", lambda *arguments: None)
    grid._layout.cache_clear()
    yield
    grid._layout.cache_clear()


@pytest.mark.parametrize("gates", [2, 3, 4])
@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("units", [36, 100, 600, 960, 964, 1024, 1060, 1600, 1800, 2048, 2112])
def test_a_layout_holds_every_weight_and_fits(h200, units, gates, is_forward):
    found = grid._layout(0, units, gates, is_forward)
    if found is None:
        assert gates == 4
        assert units > 1600
        return
    assert found.blocks % found.cluster == 0
    assert found.blocks <= found.cluster * H200[found.cluster]
    assert found.blocks * found.own >= units
    assert found.cluster * found.steps * 16 >= units * (1 if is_forward else gates)
    assert found.columns == found.cluster * found.own * (gates if is_forward else 1) <= WIDEST
    assert found.shared_bytes <= SHARED_BYTES
    assert found.chunk_bytes == 2 * 128 * 2 * found.cluster * found.steps * 16
    assert units % (found.own // 4) == 0


def layer(precision, units, batch, gates=3):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return Layer(torch.empty(2, batch, 4, dtype=dtype), units, gates, batch)


@pytest.mark.parametrize(
    ("precision", "units", "batch", "engine"),
    [
        ("bf16", 250, 1024, "cuda"),
        ("bf16", 250, 1025, "graph"),
        ("bf16", 500, 64, "cuda"),
        ("bf16", 500, 65, "grid"),
        ("bf16", 500, 128, "grid"),
        ("bf16", 500, 129, "cuda"),
        ("bf16", 500, 193, "graph"),
        ("bf16", 502, 100, "cuda"),
        ("bf16", 1800, 1, "grid"),
        ("bf16", 1800, 128, "grid"),
        ("bf16", 1800, 129, "graph"),
        ("bf16", 1802, 128, "graph"),
        ("bf16", 4096, 128, "graph"),
        ("tf32", 500, 100, "cuda"),
        ("tf32", 1800, 100, "graph"),
    ],
)
def test_the_quickest_engine_by_size(h200, monkeypatch, precision, units, batch, engine):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert quickest(layer(precision, units, batch)) == engine


def test_a_large_lstm_in_bf16_goes_step_by_step(h200):
    assert quickest(layer("bf16", 1600, 100, gates=4)) == "grid"
    assert quickest(layer("bf16", 1800, 100, gates=4)) == "graph"


@pytest.mark.parametrize("precision", choosing.MOST_ROWS)
def test_there_is_a_limit_for_every_size_that_a_cluster_holds(h200, monkeypatch, precision):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", precision != "fp32")
    for units in range(1, 600):
        assert quickest(layer(precision, units, 7)) in ("cuda", "grid", "graph")
