"""Which GPU engine would run, and how the whole GPU is laid out: arithmetic, on any machine."""

from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rda.activations import Choices
from rda.functional import scan
from rda.scan import dispatch
from rda.scan.cuda import block, choosing, grid, launching, onchip
from rda.scan.cuda.grid import CLUSTERS, SHARED_BYTES, WIDEST
from rda.scan.cuda.launching import Layer, product_for
from rda.scan.engines import Work

H200 = (66, 30)
"""Clusters of 2 and 4 blocks that an H200 has room for."""


@pytest.fixture
def h200(monkeypatch):
    """As if this machine had one."""
    monkeypatch.setattr(grid, "_room", lambda device: H200)
    monkeypatch.setattr(launching, "capability", lambda device: (9, 0))
    monkeypatch.setattr(launching, "obstacle", lambda *arguments: None)


@pytest.mark.parametrize("gates", [2, 3, 4])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    "units",
    [36, 100, 600, 960, 964, 1024, 1060, 1600, 1604, 1612, 1616, 1748, 1800, 2048, 2112],
)
def test_a_layout_holds_every_weight_and_fits(units, gates, direction):
    found = grid.layout(H200, units, gates, direction)
    is_forward = direction == "forward"
    if found is None:
        assert gates == 4
        assert units > 1800
        return
    assert found.blocks % found.cluster == 0
    assert found.blocks <= found.cluster * H200[CLUSTERS.index(found.cluster)]
    assert found.blocks * found.own >= units
    k = found.cluster * found.steps * 16 + found.tail * 4
    assert k >= units * (1 if is_forward else gates)
    assert found.columns == found.cluster * found.own * (gates if is_forward else 1) <= WIDEST
    assert found.shared_bytes <= SHARED_BYTES
    chunks = found.cluster * found.steps + (found.tail > 0)
    assert found.chunk_bytes == 2 * 128 * 2 * chunks * 16
    assert found.in_memory == (gates == 4 and units > (1600 if is_forward else 1744))
    assert (found.sum_bytes > 0) == found.in_memory
    assert units % (found.own // 4) == 0


def quickest(layer):
    """The engine that `auto` takes on a GPU."""
    return dispatch.choose("auto", Work(layer, *dispatch.unit_of(Choices()), ()))


def layer(precision, units, batch, gates=3):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    product = product_for(dtype, units)
    return Layer(torch.device("cuda"), dtype, units, gates, batch, product)


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
        ("bf16", 1800, 192, "grid"),
        ("bf16", 1800, 193, "graph"),
        ("bf16", 1802, 128, "graph"),
        ("bf16", 4096, 128, "graph"),
        ("tf32", 64, 1, "block"),
        ("tf32", 64, 2048, "block"),
        ("tf32", 64, 2049, "graph"),
        ("tf32", 112, 264, "block"),
        ("tf32", 112, 265, "cuda"),
        ("tf32", 128, 1, "cuda"),
        ("tf32", 500, 100, "cuda"),
        ("tf32", 1800, 100, "graph"),
    ],
)
def test_the_quickest_engine_by_size(h200, monkeypatch, precision, units, batch, engine):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert quickest(layer(precision, units, batch)) == engine


@pytest.mark.parametrize(
    ("units", "most"), [(256, 1024), (257, 392), (384, 392), (400, 280), (512, 392)]
)
def test_in_float32_clusters_are_quickest_up_to_some_rows(h200, monkeypatch, units, most):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert quickest(layer("fp32", units, most)) == "cuda"
    assert quickest(layer("fp32", units, most + 1)) == "graph"


def test_four_gates_leave_room_for_fewer_units(h200, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    for gates, largest in ((2, 112), (3, 112), (4, 96)):
        assert quickest(layer("tf32", largest, 7, gates)) == "block"
        assert quickest(layer("tf32", largest + 1, 7, gates)) == "cuda"


def test_a_gpu_without_clusters_has_blocks(h200, monkeypatch):
    monkeypatch.setattr(onchip, "obstacle", lambda layer: "no clusters")
    assert quickest(layer("fp32", 128, 2048)) == "block"
    assert quickest(layer("fp32", 128, 2049)) == "graph"


def test_a_large_lstm_in_bf16_goes_step_by_step(h200):
    assert quickest(layer("bf16", 1800, 100, gates=4)) == "grid"
    assert quickest(layer("bf16", 1804, 100, gates=4)) == "graph"


@pytest.mark.parametrize("precision", choosing.MOST_ROWS)
def test_there_is_a_limit_for_every_size_that_a_cluster_holds(h200, monkeypatch, precision):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", precision != "fp32")
    for units in range(1, 600):
        assert quickest(layer(precision, units, 7)) in ("block", "cuda", "grid", "graph")


def test_a_symbol_for_the_batch_is_traced_without_torch_compile():
    def outputs(x, weight):
        return scan(x, weight)[0]

    tensors = torch.randn(5, 2, 32), torch.randn(24, 8)
    traced = make_fx(outputs, tracing_mode="symbolic")(*tensors)
    assert torch.equal(traced(*tensors), outputs(*tensors))


def test_a_size_that_is_a_symbol_is_traced(h200):
    def reason(x, weight):
        rows, units = weight.shape
        found = grid.obstacle(Layer.on(x, units, rows // units, x.shape[1]))
        return x + (1 if found is None else 2)

    compiled = torch.compile(reason, fullgraph=True, dynamic=True, backend="eager")
    x = torch.zeros(2, 3, 4, dtype=torch.bfloat16)
    for units, added in ((100, 1), (200, 1), (202, 2), (4096, 2)):
        weight = torch.empty(3 * units, units, device="meta", dtype=torch.bfloat16)
        assert compiled(x, weight)[0, 0, 0] == added


@pytest.mark.parametrize("allowed", [True, False])
def test_the_precision_is_traced_and_found_alike(monkeypatch, allowed):
    def with_its_precision(x):
        return x + {"tf32": 1, "fp32": 2}[launching.product_for(x.dtype, 64)]

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
    compiled = torch.compile(with_its_precision, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1)) == with_its_precision(torch.zeros(1)) == (1 if allowed else 2)


@pytest.mark.parametrize(
    ("units", "batch", "precision", "shared", "rows"),
    [
        (250, 1, "tf32", True, 8),
        (250, 100, "tf32", False, 8),
        (250, 100, "tf32", True, 16),
        (250, 120, "fp32", False, 8),
        (250, 121, "fp32", False, 16),
        (250, 256, "tf32", False, 8),  # two rounds instead of three
        (250, 512, "tf32", False, 16),
        (250, 512, "bf16", False, 8),
        (128, 1000, "tf32", True, 8),
        (300, 1000, "tf32", True, 8),
    ],
)
def test_clusters_have_more_rows_where_they_would_wait_for_each_other(
    monkeypatch, units, batch, precision, shared, rows
):
    monkeypatch.delenv(onchip.SHARED, raising=False)
    if shared:
        monkeypatch.setenv(onchip.SHARED, "1")
    monkeypatch.setattr(launching, "clusters_at_once", lambda device, blocks: 15)
    assert onchip.cluster_rows(0, onchip.cluster_size(units), batch, precision) == rows


class TestSwitches:
    """torch's own switch of precision, which is set for a moment, is left as it was."""

    @pytest.fixture(autouse=True)
    def _as_before(self):
        yield
        torch.backends.fp32_precision = "none"
        torch.backends.cuda.matmul.fp32_precision = "none"

    @pytest.mark.parametrize("product", ["fp32", "tf32", "bf16"])
    def test_what_is_inherited_stays_inherited(self, product):
        matmul = torch.backends.cuda.matmul
        torch.backends.fp32_precision = "tf32"
        with launching.products(product):
            assert matmul.fp32_precision == ("ieee" if product == "fp32" else "tf32")
        torch.backends.fp32_precision = "ieee"
        assert matmul.fp32_precision == "ieee"

    @pytest.mark.parametrize("own", ["none", "ieee", "tf32"])
    @pytest.mark.parametrize("product", ["fp32", "tf32", "bf16"])
    def test_its_own_value_comes_back(self, own, product):
        matmul = torch.backends.cuda.matmul
        matmul.fp32_precision = own
        with launching.products(product):
            pass
        assert matmul.fp32_precision == own


def test_the_sizes_that_the_docs_name_are_those_of_the_engines():
    """In the tables of the README and of docs/kernels.md."""

    def most(gates):
        ways = ("forward", "backward")
        sizes = range(4, 4000, 4)
        return max(
            units for units in sizes if all(grid.layout(H200, units, gates, way) for way in ways)
        )

    on_block = f"up to {block.LARGEST} units (LSTM {block.WEIGHTS // 4})"
    on_grid = f"up to {most(gates=3)} (LSTM {most(gates=4)})"
    for name in ("README.md", "docs/kernels.md"):
        text = (Path(__file__).parents[2] / name).read_text()
        for said in (on_block, on_grid, f"up to {onchip.LARGEST} units"):
            assert said in text
    assert f"{on_grid}, batches up to {choosing.MOST_ROWS_OF_GRID}, Hopper |" in (
        (Path(__file__).parents[2] / "README.md").read_text()
    )
