"""The doctor tells the truth about the engines."""

import pytest
import torch

from rda.cli import main
from rda.scan import engines
from rda.scan.cpu import native


@pytest.mark.needs_compiler
def test_a_healthy_machine(capsys):
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "250 units, batch 100, 1000 steps on cpu: engine cpu" in told
    for name in engines.ENGINES:
        verdict = "cannot serve: it runs on an NVIDIA GPU" if name in engines.ON_GPUS else "right"
        assert f"\n{name:<11} {verdict}" in told
    assert torch.__version__ in told


@pytest.mark.needs_compiler
def test_bf16_is_looked_at_in_bf16(capsys):
    assert main(["doctor", "--dtype", "bfloat16", "--units", "600"]) == 0
    told = capsys.readouterr().out
    assert "600 units, batch 100, 1000 steps on cpu in bfloat16: engine cpu" in told
    assert told.count(" right, relative error") == 3


@pytest.mark.parametrize("attention", ["exp", "relu", "softplus", "sigmoid"])
def test_every_choice_is_examined(attention, capsys):
    assert main(["doctor", "--attention", attention, "--hidden", "tanh", "--no-discount"]) == 0


def test_an_engine_without_its_kernel_is_told_with_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(native, "compiled", lambda *of: "no C++ compiler found")
    assert main(["doctor", "--units", "8"]) == 0
    told = capsys.readouterr().out
    assert "cpu         cannot serve: no C++ compiler found" in told
    assert "engine eager" in told


@pytest.mark.needs_compiler
def test_a_wrong_engine_is_found_out(monkeypatch, capsys):
    right = native.Native.forward

    def wrong(*arguments):
        results = right(*arguments)
        return results._replace(output=results.output * 1.001)

    monkeypatch.setattr(native.Native, "forward", wrong)
    assert main(["doctor"]) == 1
    assert "cpu         WRONG" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--units", "0"], ["--device", "nowhere"], ["--hidden", "relu"]])
def test_wrong_questions_get_one_line_and_exit_code_2(wrong, capsys):
    assert main(["doctor", *wrong]) == 2
    told = capsys.readouterr().err
    assert told.startswith("rda: ")
    assert told.count("\n") == 1
