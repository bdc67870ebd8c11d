"""The GPU engines equal the reference: outputs, states, every gradient."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from comparing import (
    RDA,
    RWA,
    TOLERANCE,
    a_thousand_agree,
    check_op,
    distance,
    draw,
    error,
    on_another_stream,
    packed_error,
    plain_and_compiled,
    replayed_and_run,
    split_and_whole,
    stays_finite,
)

import rda
from rda.scan.cuda.onchip import LARGEST
from rda.scan.dispatch import EngineUnavailableError, scan, select


def test_every_choice(engine, choices, product):
    assert error(engine, 23, 11, 37, choices, product) < TOLERANCE[product]


@pytest.mark.parametrize("units", [1, 2, 3, 31, 32, 33, 64, 100, 127, 128, 129, 250, 255, 256])
def test_odd_and_even_sizes(engine, units, product):
    assert error(engine, 12, 9, units, RDA, product) < TOLERANCE[product]


@pytest.mark.parametrize("units", [257, 300, 384, 511, 512])
def test_sizes_beyond_a_portable_cluster(units, product):
    assert error("cuda", 12, 9, units, RDA, product) < TOLERANCE[product]


@pytest.mark.parametrize("units", [257, 511, 1023, 1800, 2048])
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_sizes_beyond_the_chip(units, choices, product):
    assert error("graph", 12, 9, units, choices, product) < TOLERANCE[product]


@pytest.mark.parametrize("batch", [1, 7, 8, 9, 16, 100, 257])
def test_every_number_of_rows(engine, batch, product):
    assert error(engine, 7, batch, 130, RDA, product) < TOLERANCE[product]


@pytest.mark.parametrize("time", [1, 2, 3, 4, 5, 73, 2000])
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_short_and_long_sequences(engine, time, choices, product):
    assert error(engine, time, 5, 40, choices, product) < TOLERANCE[product]


@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_rows_in_both_directions(engine, choices, reverse, product):
    lengths = [20, 3, 0, 11, 20, 1, 19, 7, 20]
    assert error(engine, 20, 9, 37, choices, product, lengths, reverse) < TOLERANCE[product]


def test_a_split_sequence_is_the_whole(engine, product):
    split, whole = split_and_whole(engine, 9, 66, product)
    assert torch.equal(split[0], whole[0])
    # The state between the scans is rounded to float32; inside, the kernel keeps more digits.
    found, expected = ([part.double() for part in parts[1:]] for parts in (split, whole))
    assert distance(found, expected) < TOLERANCE[product]


def test_logits_of_any_size_stay_finite(engine, choices, product):
    assert stays_finite(engine, 37, choices, product)


def test_no_history_and_a_projected_input(engine, product):
    tensors = draw(9, 5, 20, 80, RDA)
    projected, weight = tensors[0].to("cuda", torch.float32), tensors[1].to("cuda", torch.float32)
    found, _ = scan(projected, weight, engine=engine)
    exact, _ = scan(projected.double(), weight.double(), engine="reference")
    assert distance([found.double()], [exact]) < TOLERANCE["tf32" if product != "fp32" else "fp32"]
    assert projected.isfinite().all()
    again, _ = scan(projected.requires_grad_(), weight, engine=engine)
    assert torch.equal(again, found)  # the caller's projections are not overwritten


def test_a_thousand_launches_are_identical(engine, product):
    assert a_thousand_agree(engine, 20, 250, product)


def test_layers_directions_and_packing(engine):
    # tf32 is torch's own default for recurrent layers.
    assert packed_error(engine, 40, torch.float32) < TOLERANCE["tf32"]


def test_autocast_runs_in_bf16(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine=engine).cuda()
    x = torch.randn(17, 6, 5, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        low, state = layer(x)
    assert low.dtype == torch.bfloat16
    assert state.weight.dtype == torch.float32
    assert distance([low.double()], [layer(x)[0].double()]) < TOLERANCE["bf16"]


def test_torch_compile_takes_it_whole(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine=engine).cuda()
    x = torch.randn(17, 6, 5, device="cuda", requires_grad=True)
    for plain, traced in plain_and_compiled(layer, x):
        torch.testing.assert_close(plain, traced, rtol=1e-4, atol=1e-5)


def test_a_cuda_graph_replays_it(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine=engine).cuda()
    x = torch.randn(17, 6, 5, device="cuda")
    assert all(map(torch.equal, *replayed_and_run(layer, x)))


def test_another_stream_is_kept_in_order(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 250, engine=engine).cuda()
    x = torch.randn(300, 6, 5, device="cuda")
    expected, _ = layer(x)
    found, total = on_another_stream(layer, x)
    assert torch.equal(found, expected)
    assert torch.equal(total, expected.sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_op_is_registered_as_torch_demands(engine, dtype):
    check_op(engine, 16, dtype)


def test_backward_under_autocast_is_the_same():
    torch.manual_seed(0)
    layer = rda.RDA(5, 40).cuda()
    x = torch.randn(17, 6, 5, device="cuda")
    gradients = []
    for enabled in (False, True):
        output, _ = layer(x)
        with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
            gradients.append(torch.autograd.grad(output, list(layer.parameters()), output))
    assert all(map(torch.equal, *gradients))


def test_what_was_recorded_serves_other_weights_and_later_modes():
    """CUDA graphs are cached by shape, so they must not depend on the tensors of the first call."""
    torch.manual_seed(0)
    x = torch.randn(73, 6, 5, device="cuda")
    for k in range(3):
        layer = rda.RDA(5, 600, engine="graph").cuda()
        with torch.inference_mode(k == 0):
            found, _ = layer(x * 1.0)
        exact = rda.RDA(5, 600, engine="reference").cuda().double()
        exact.load_state_dict(layer.state_dict())
        assert distance([found.double()], [exact(x.double())[0]]) < TOLERANCE["tf32"]


def test_more_shapes_than_recordings_are_kept():
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine="graph").cuda()
    x = torch.randn(9, 20, 5, device="cuda")
    outputs = [layer(x[:, :batch])[0] for batch in range(1, 21)]
    again = [layer(x[:, :batch])[0] for batch in range(1, 21)]
    assert all(map(torch.equal, outputs, again))


def test_an_empty_batch(engine):
    layer = rda.RDA(5, 40, engine=engine).cuda()
    output, state = layer(torch.randn(7, 0, 5, device="cuda"))
    assert output.shape == (7, 0, 40)
    assert state.average.shape == (1, 0, 40)
    output.sum().backward()
    assert not layer.weight_hh_l0.grad.any()


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_a_recording_owns_the_memory_that_it_writes_to(batch):
    """cuBLAS's workspace too: torch frees it on request, and other tensors then get its memory."""
    torch.manual_seed(0)
    layer = rda.RDA(5, 1800, engine="graph").cuda()
    x = torch.randn(64, batch, 5, device="cuda")

    def step():
        output, _ = layer(x)
        return (output, *torch.autograd.grad(output.sum(), list(layer.parameters())))

    expected = step()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    taken = [torch.zeros(2**20, device="cuda") for _ in range(64)]
    assert all(map(torch.equal, step(), expected))
    assert not any(tensor.any() for tensor in taken)


# torch captures an empty graph to reserve its memory pool, and drops the warning in a way that an
# "error" filter overrides (CUDAGraphTreeManager in torch/_inductor/cudagraph_trees.py).
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")
def test_torch_compile_with_graphs_of_its_own(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine=engine).cuda()
    compiled = torch.compile(layer, mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(17, 6, 5, device="cuda")
        gradients = []
        for module in (layer, compiled):
            output, _ = module(x)
            gradients.append(torch.autograd.grad(output.square().sum(), list(layer.parameters())))
        for plain, traced in zip(*gradients, strict=True):
            torch.testing.assert_close(plain, traced, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("switch", "value"),
    [
        (lambda: torch.backends, "tf32"),
        (lambda: torch.backends.cuda.matmul, "tf32"),
        (lambda: torch.backends.cuda.matmul, "ieee"),
        (lambda: torch.backends.cudnn.rnn, "ieee"),
    ],
    ids=["all", "matmul", "matmul off", "rnn"],
)
def test_torchs_newer_switches_of_precision(engine, switch, value, monkeypatch):
    monkeypatch.setattr(switch(), "fp32_precision", value)
    layer = rda.RDA(5, 40, engine=engine).cuda()
    output, _ = layer(torch.randn(9, 4, 5, device="cuda"))
    output.sum().backward()
    assert switch().fp32_precision == value


def test_loading_a_kernel_while_a_graph_is_captured_is_refused_in_words(engine):
    layer = rda.RDA(5, 47, engine=engine).cuda()
    x = torch.randn(9, 4, 5, device="cuda")
    torch.mm(x[0], x[0].t())
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="run it once before"), torch.cuda.graph(graph):
        layer(x)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_second_gpu(engine):
    torch.manual_seed(0)
    layer = rda.RDA(5, 40, engine=engine).cuda(0)
    x = torch.randn(73, 6, 5, device="cuda:0")
    expected, _ = layer(x)
    found, _ = layer.cuda(1)(x.cuda(1))
    assert torch.equal(found.cpu(), expected.cpu())


def test_second_derivatives_come_from_the_reference():
    tensors = [t.to("cuda", torch.float32) for t in draw(4, 2, 6, 3, RDA)]
    x, weight, input_weight, bias, _, _ = (t.requires_grad_() for t in tensors)
    output, _ = scan(x, weight, input_weight=input_weight, bias=bias, engine="cuda")
    (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert second.isfinite().all()
    assert second.abs().max() > 0


class TestSelection:
    def test_auto_takes_it(self):
        x = torch.zeros(2, 3, 40, device="cuda")
        assert select("auto", x, RDA, torch.zeros(30, 10, device="cuda")).name == "block"

    def test_what_it_cannot_hold_goes_to_the_next_engine_with_the_reason(self, monkeypatch):
        for product in ("tf32", "fp32", "bf16"):
            monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", product != "fp32")
            dtype = torch.bfloat16 if product == "bf16" else torch.float32
            x = torch.zeros(2, 3, 8, device="cuda", dtype=dtype)
            weight = torch.zeros(3 * (LARGEST + 1), LARGEST + 1, device="cuda", dtype=dtype)
            chosen = select("auto", x, RDA, weight)
            assert chosen.name == "graph"
            assert f"holds {LARGEST} units" in chosen.reason

    def test_what_neither_can_do_is_told(self):
        x = torch.zeros(2, 3, 40, device="cuda", dtype=torch.float64)
        with pytest.warns(rda.EngineWarning, match="float64"):
            chosen = select("auto", x, RDA, torch.zeros(30, 10, device="cuda").double())
        assert chosen.name == "eager"

    def test_float64_is_refused_by_name(self):
        x = torch.zeros(2, 3, 40, device="cuda", dtype=torch.float64)
        with pytest.raises(EngineUnavailableError, match="float64"):
            scan(x, torch.zeros(30, 10, device="cuda", dtype=torch.float64), engine="cuda")


def test_a_thread_in_which_torch_has_done_nothing(engine):
    x, weight = torch.randn(7, 3, 160, device="cuda"), torch.randn(120, 40, device="cuda")
    expected = scan(x, weight, engine=engine)[0].cpu()  # also leaves free memory for the next call
    with ThreadPoolExecutor(1) as pool:
        found, _ = pool.submit(scan, x, weight, engine=engine).result()
    assert found.cpu().equal(expected)


def test_the_first_backward_pass_of_a_process():
    script = """if True:
        import torch, rda
        layer = rda.RDA(4, 40).cuda()
        output, _ = layer(torch.randn(7, 3, 4, device="cuda"))
        output.backward(torch.ones_like(output))
        print(float(layer.weight_hh_l0.grad.norm()))
    """
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) > 0


def test_data_parallel(tmp_path):
    """One process is enough to run torch's hooks; more would only add up gradients."""
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    try:
        torch.manual_seed(0)
        layer = rda.RDA(5, 40).cuda()
        x = torch.randn(17, 6, 5, device="cuda")
        expected = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
        parallel = torch.nn.parallel.DistributedDataParallel(layer, device_ids=[0])
        parallel(x)[0].square().sum().backward()
        found = [parameter.grad for parameter in layer.parameters()]
        assert all(map(torch.equal, found, expected))
    finally:
        torch.distributed.destroy_process_group()
