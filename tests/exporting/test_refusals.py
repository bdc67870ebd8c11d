"""What cannot be exported is refused in one line, and leaves no file and no half of one."""

import sys

import pytest
import torch
from torch import nn

import rda
from rda.exporting import onnx_file
from rda.training.model import SequenceModel

HALF = "module should be float32 or float64, got torch.bfloat16"
every_step = SequenceModel("RDA", 3, input_size=2, output_size=2, reads_every_step=True)


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        (rda.RDA(2, 3, bidirectional=True), {"one_step": True}, "bidirectional"),
        (rda.RDA(2, 3), {"one_step": True, "with_lengths": True}, "with_lengths should be False"),
        (every_step, {"with_lengths": True}, "answers at every step"),
        (rda.RDA(2, 3, dtype=torch.bfloat16), {}, HALF),
        (rda.build("LSTM", 2, 3, proj_size=2), {}, "proj_size=2"),
        (rda.RDA(2, 3, output=torch.sigmoid), {}, "use sigmoid of rda.functions"),
        (rda.RDA(2, 3, attention=nn.Softplus()), {}, "rda.functions has exp, log"),
        (rda.RDA(2, 3), {"to": "onxx"}, "Did you mean 'onnx'"),
    ],
)
def test_what_cannot_be_exported(module, options, said, tmp_path):
    for to in ("onnx", "torch"):
        with pytest.raises(ValueError, match=said) as caught:
            rda.export(module, tmp_path / "file", **{"to": to, **options})
        assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("module", [nn.LSTM(2, 3), nn.Linear(2, 3), rda.RDACell(2, 3)])
def test_modules_of_others(module, tmp_path):
    with pytest.raises(TypeError, match=f"got: {type(module).__name__}"):
        rda.export(module, tmp_path / "file.onnx")


def test_flags_and_folders_are_named(tmp_path):
    with pytest.raises(TypeError, match="one_step should be of type bool"):
        rda.export(rda.RDA(1, 1), tmp_path / "file.onnx", one_step=1)
    with pytest.raises(rda.ExportError, match="folder that exists"):
        rda.export(rda.RDA(1, 1), tmp_path / "nowhere" / "file.onnx")
    with pytest.raises(rda.ExportError, match=r"path should end in \.onnx, or to be 'torch'"):
        rda.export(rda.RDA(1, 1), tmp_path / "file.pt2")
    with pytest.raises(rda.ExportError, match=r"path should end in \.pt2, or to be 'onnx'"):
        rda.export(rda.RDA(1, 1), tmp_path / "file.onnx", "torch")
    assert not [*tmp_path.iterdir()]


def test_a_file_that_differs_is_not_written_and_the_old_one_stays(tmp_path, monkeypatch):
    layer = rda.RDA(2, 3)
    path = tmp_path / "layer.onnx"
    rda.export(layer, path)
    before = path.read_bytes()
    written = onnx_file.written

    def of_another(subject, form):
        other = subject.stack.groups[0]._replace(recurrent=torch.ones(9, 3))
        return written(subject._replace(stack=subject.stack._replace(groups=(other,))), form)

    monkeypatch.setattr(onnx_file, "written", of_another)
    with pytest.raises(rda.ExportError, match=r"differs from the module by .* nothing was written"):
        rda.export(layer, path)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("rda.exporting.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rda-torch\[onnx\]'") as caught:
        rda.export(rda.RDA(1, 1), tmp_path / "layer.onnx")
    assert caught.value.name == package
    assert not [*tmp_path.iterdir()]
