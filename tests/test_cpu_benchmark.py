"""The CPU benchmark's case beside busy processes is told apart from the same size alone."""

import contextlib
import json
import sys

import pytest
import torch

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_the_table_says_which_case_ran_beside_busy_processes():
    import cpu_table

    case = {"units": 64, "batch": 9, "time": 200, "inputs": 10}
    alone = "64 units, batch 9, 200 steps, 10 inputs"
    assert cpu_table.size(case) == alone
    assert cpu_table.size({**case, "busy_processes": 2}) == f"{alone}, beside 2 busy processes"


def test_busy_processes_end_with_their_block(monkeypatch):
    import on_cpu

    started = []
    popen = on_cpu.subprocess.Popen
    monkeypatch.setattr(
        on_cpu.subprocess,
        "Popen",
        lambda command, **options: started.append(popen(command, **options)) or started[-1],
    )

    def fail():
        with on_cpu.busy_processes(2):
            assert [process.poll() for process in started] == [None, None]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert None not in [process.poll() for process in started]


def test_each_step_of_a_turn_beside_busy_processes_is_kept(monkeypatch, tmp_path):
    import beside_busy
    import table

    monkeypatch.setattr(beside_busy, "FIRST", 2)
    monkeypatch.setattr(beside_busy, "RESULTS", tmp_path / "record.json")
    monkeypatch.setattr(beside_busy, "busy_processes", lambda count: contextlib.nullcontext())
    taken = {name: [1e-3 * step for step in range(1, 11)] for name in beside_busy.LAYERS}
    monkeypatch.setattr(beside_busy, "in_a_new_process", lambda steps: taken)
    monkeypatch.setattr(
        sys, "argv", ["beside_busy.py", "--turns", "3", "--steps", "10", "--record"]
    )
    beside_busy.main()
    record = json.loads((tmp_path / "record.json").read_text())
    times = record["beside_busy"]["times_ms"]["later"]["nn.LSTM"]
    assert (times["lowest"], times["median"], times["highest"]) == pytest.approx((3.0, 6.5, 10.0))
    assert "| 3 to 10 | nn.LSTM | 6.50 (4.25 to 8.75) | 3.00 | 10.0 |" in table.render_results(
        record
    )


def test_a_turn_measures_both_layers_step_by_step():
    import beside_busy

    before = torch.get_num_threads()
    try:
        taken = beside_busy.one_turn(4)
    finally:
        torch.set_num_threads(before)
    assert {name: len(steps) for name, steps in taken.items()} == {"RDA": 4, "nn.LSTM": 4}
