"""The CPU benchmark's case beside busy processes is told apart from the same size alone."""

import pytest

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
        on_cpu.subprocess, "Popen", lambda command: started.append(popen(command)) or started[-1]
    )

    def fail():
        with on_cpu.busy_processes(2):
            assert [process.poll() for process in started] == [None, None]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert None not in [process.poll() for process in started]
