"""The model that comes with the package: how it is packed, used, described, and refused."""

import importlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from copied_checkouts import is_of_a_commit
from tiny_runs import TEXT as ENWIK8
from tiny_runs import TINY_RUNS, run_once, with_steps

import rda
from rda.cli import main
from rda.training.checkpoint import unpack
from rda.training.manifest import MANIFEST
from rda.training.record import CHECKPOINTS, MODEL, SETTINGS, STATUS, Record
from rda.training.status import KILLED

ROOT = Path(__file__).parents[2]
TEXT = "".join(f"{n} bottles of beer on the wall, take {n % 7} down.\n" for n in range(60))


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("pretrained")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("pretrained") / "corpus.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def run(corpus):
    """The folder of a finished run."""
    small = "--small --hidden-size 8 --batch-size 4 --segment 10 --steps 20 --evaluate-every 10"
    line = ["train", "text", "RDA-exp-tanh", "--file", str(corpus), *small.split(), "--seed", "3"]
    where = ["--runs-dir", str(corpus.parent / "runs"), "--threads", "1", "--device", "cpu"]
    assert main([*line, "--name", "mine", *where]) == 0
    return corpus.parent / "runs" / "mine"


@pytest.fixture(scope="module")
def packed(tool, run, corpus):
    folder = corpus.parent / "package" / "wikipedia"
    assert tool.main([str(run), "--file", str(corpus), "--folder", str(folder)]) == 0
    return folder


@pytest.fixture
def packaged(packed, tmp_path, monkeypatch):
    """The packed model in the place of the one that comes with the package."""
    folder = shutil.copytree(packed, tmp_path / "package" / "wikipedia")
    monkeypatch.setattr(rda, "PRETRAINED", folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_text_is_written_without_a_run_and_one_line_says_whose_it_is(packaged, capsys):
    texts = []
    for seed in ("1", "1", "2"):
        assert main(["generate", "--prompt", "9 bottles", "--length", "40", "--seed", seed]) == 0
        told = capsys.readouterr()
        texts.append(told.out)
        assert told.err.startswith("rda: this is the model that comes with rda, RDA-exp-tanh")
        assert "rda generate RUN takes one of yours" in told.err
        assert told.err.count("\n") == 1
    assert texts[0] == texts[1] != texts[2]
    model = rda.load(rda.PRETRAINED)
    assert texts[0] == f"9 bottles{model.generate('9 bottles', 40, temperature=0.8, seed=1)}\n"


def test_a_text_is_evaluated_without_a_run(packaged, corpus, capsys):
    assert main(["evaluate", "--file", str(corpus), "--page", "page.html"]) == 0
    told = capsys.readouterr()
    bits = rda.load(rda.PRETRAINED).bits(TEXT).double().mean()
    assert told.out.startswith(f"{bits:.4g} bits per character over {len(TEXT) - 1:,} characters")
    assert "rda evaluate RUN takes one of yours" in told.err
    assert "wikipedia" in Path("page.html").read_text()


@pytest.mark.parametrize(
    "line", [["generate", "--prompt", "\x00"], ["evaluate", "--file", "missing.txt"]]
)
def test_what_is_wrong_is_one_line_without_a_run_too(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_its_weights_are_those_of_the_run_rounded_and_computed_in_float32(packaged, run):
    stored, _ = unpack((packaged / MODEL).read_bytes())
    weights, _ = unpack((run / MODEL).read_bytes())
    loaded = rda.load(rda.PRETRAINED).state_dict()
    assert loaded.keys() == stored.keys() == weights.keys()
    for name, weight in weights.items():
        assert stored[name].dtype == torch.bfloat16
        assert loaded[name].dtype == torch.float32
        assert torch.equal(loaded[name], weight.bfloat16().float())


def test_a_run_of_its_name_is_still_found(packaged, run, capsys):
    shutil.copytree(run, Path("runs", "wikipedia"))
    assert main(["generate", "wikipedia", "--length", "20"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    written = rda.load(run).generate(length=20, temperature=0.8, seed=0)
    assert told.out == f"{written}\n"
    shutil.rmtree("runs")
    assert main(["generate", "wikipedia"]) == 2
    assert "no run 'wikipedia'" in capsys.readouterr().err


def test_an_empty_name_is_not_taken_for_none(packaged, capsys):
    assert main(["generate", ""]) == 2
    assert "no run ''" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["generate", "evaluate --file {corpus}"])
def test_a_source_tree_without_it_says_so_in_one_line(corpus, tmp_path, monkeypatch, capsys, line):
    monkeypatch.setattr(rda, "PRETRAINED", tmp_path / "nothing")
    assert main(line.format(corpus=corpus).split()) == 2
    told = capsys.readouterr()
    assert told.err.startswith(
        "rda: this installation comes without a pretrained model: give a run"
    )
    assert told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.parametrize("name", [MODEL, SETTINGS, STATUS, MANIFEST, "packing.json"])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_damage_is_one_line_that_says_what_to_do(packaged, capsys, name, how):
    if how == "gone":
        (packaged / name).unlink()
    else:
        content = bytearray((packaged / name).read_bytes())
        content[len(content) // 2] ^= 255
        (packaged / name).write_bytes(content)
    assert main(["generate"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("rda: the model that comes with rda is damaged (")
    assert name in told.err
    assert told.err.endswith("install rda-torch again\n")
    assert told.err.count("\n") == 1


def test_the_folder_is_the_record_of_its_run(packed, run):
    record, whole = Record(packed), Record(run)
    record.verify()
    assert record.settings == whole.settings
    assert record.environment == whole.environment
    assert record.status.test == whole.status.test
    assert record.curve("validation_bits") == whole.curve("validation_bits")
    assert {path.name for path in packed.iterdir()} == {
        "README.md", "environment.json", "manifest.sha256", "metrics.jsonl", "model.safetensors",
        "packing.json", "settings.toml", "status.json", "timing.jsonl",
    }  # fmt: skip


def test_the_card_says_what_the_record_says(packed, run):
    card = (packed / "README.md").read_text()
    record = Record(run)
    (start,) = record.environment
    packing = json.loads((packed / "packing.json").read_text())
    model = rda.load(run)
    for said in (
        f"| test | {record.status.test['test_bits']:.3f} bits per character |",
        f"| validation | {record.status.best['validation_bits']:.3f} bits per character at step "
        f"{record.status.best_step}, whose weights these are |",
        "| unit | RDA-exp-tanh, 8 units |",
        f"| size | {sum(weight.numel() for weight in model.parameters()):,} parameters, 0.0 MB |",
        f"{len(model.vocabulary)} different characters, embedded in 16 dimensions",
        "bfloat16, computed in float32; rounding, after the test, changes "
        f"{packing['bits']:.4f} to {packing['bits_rounded']:.4f} bits on corpus.txt",
        "| seed | 3 |",
        f"| command | `{start['command']}` |",
        start["processor"],
        f"rda {rda.__version__}, torch {torch.__version__}, Python {start['python']}",
        f"| commit | `{start['git']['commit']}`" if start["git"] else "| commit | not recorded |",
    ):
        assert said in card
    assert packing["bits"] == pytest.approx(model.bits(TEXT).double().mean().item())
    assert packing["bits"] != packing["bits_rounded"]


def test_the_card_of_a_model_of_wikipedia_names_the_licence_of_its_text(tool, tmp_path):
    run_once(tmp_path / "run", with_steps(TINY_RUNS["wikipedia"], 4))
    (tmp_path / "other").write_bytes(ENWIK8["enwik8"])
    line = [str(tmp_path / "run"), "--file", str(tmp_path / "other")]
    assert tool.main([*line, "--folder", str(tmp_path / "packed")]) == 0
    card = (tmp_path / "packed" / "README.md").read_text()
    assert "GNU Free Documentation License" in card
    assert "Attribution-ShareAlike" in card
    assert "Of its first 2,000 bytes" in card
    assert "bits per character, where each byte counts as a character" in card


def test_weights_that_rounding_would_harm_are_stored_as_they_are(
    tool, run, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(tool, "LARGEST_CHANGE", 0.0)
    folder = tmp_path / "packed"
    assert tool.main([str(run), "--file", str(corpus), "--folder", str(folder)]) == 0
    stored, _ = unpack((folder / MODEL).read_bytes())
    weights, _ = unpack((run / MODEL).read_bytes())
    assert all(torch.equal(stored[name], weight) for name, weight in weights.items())
    assert "float32; bfloat16 would change" in (folder / "README.md").read_text()


def killed(run, corpus):
    status = json.loads((run / STATUS).read_text())
    (run / STATUS).write_text(json.dumps({**status, "state": "running"}))
    return f"run run is {KILLED}: only a finished run is packed"


def without_a_model(run, corpus):
    (run / MODEL).unlink()
    return "model.safetensors is missing or changed"


def without_a_text(run, corpus):
    corpus.unlink()
    return f"there is no file {corpus}"


def with_an_empty_text(run, corpus):
    corpus.write_text("")
    return "has fewer than two symbols"


def without_a_run(run, corpus):
    shutil.rmtree(run)
    return "is not a run"


@pytest.mark.parametrize(
    "spoil", [killed, without_a_model, without_a_text, with_an_empty_text, without_a_run]
)
def test_what_cannot_be_packed_is_one_line_and_leaves_nothing(tool, run, tmp_path, capsys, spoil):
    copy = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "corpus.txt").write_text(TEXT)
    said = spoil(copy, tmp_path / "corpus.txt")
    package = tmp_path / "package"
    line = [str(copy), "--file", str(tmp_path / "corpus.txt"), "--folder", str(package / "w")]
    assert tool.main(line) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not package.exists()


def test_a_failure_halfway_leaves_nothing_and_what_is_there_stays(
    tool, run, corpus, packaged, monkeypatch, capsys
):
    line = [str(run), "--file", str(corpus), "--folder"]
    before = (packaged / "README.md").read_bytes()
    assert tool.main([*line, str(packaged)]) == 2
    assert "is already there: remove it first" in capsys.readouterr().err

    def fail(folder):
        raise OSError("the disk is full")

    monkeypatch.setattr(tool, "render_card", fail)
    assert tool.main([*line, str(packaged.parent / "other")]) == 2
    assert [path.name for path in packaged.parent.iterdir()] == ["wikipedia"]
    assert (packaged / "README.md").read_bytes() == before
    assert (run / CHECKPOINTS).is_dir()


def test_documents_give_the_bits_of_the_record(publish, packed, run):
    bits = f"{Record(run).status.test['test_bits']:.3f}"
    for name, words in (
        ("README.md", publish.MODEL_IN_README), ("docs/text.md", publish.MODEL_IN_TEXT)
    ):  # fmt: skip
        document = (ROOT / name).read_text()
        written = publish.with_model(document, words, packed)
        assert f"{bits} bits per" in " ".join(written.split())
        assert publish.with_model(written, words, packed) == written
        assert publish.with_model(document, words, rda.PRETRAINED) == document


def test_the_packaged_model_is_whole_and_its_card_is_made_from_its_record(publish):
    record = Record(rda.PRETRAINED)
    record.verify()
    assert (rda.PRETRAINED / "README.md").read_text() == publish.render_card(rda.PRETRAINED)
    for start in record.environment:
        assert start["command"].startswith("rda train ")
        assert is_of_a_commit(start["git"])
    assert len(rda.load(rda.PRETRAINED).generate("The ", 20, seed=1)) > 0


def test_bytes_that_it_has_never_seen_are_left_out_of_an_evaluation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    heads = []
    for name, end in (("unix", b"\n"), ("windows", b"\r\n")):
        Path(name).write_bytes(b"The cat sat." + end + b"It sat there." + end)
        assert main(["evaluate", "--file", name]) == 0
        heads.append(capsys.readouterr().out.splitlines()[0])
    assert heads[1] == f"{heads[0]} Left out: 2 bytes that its training text does not have."


def test_nothing_of_it_is_left_out_of_the_wheel(packed):
    """The build takes all files of the package but those that git ignores."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git ignores nothing")
    names = [f"rda/pretrained/wikipedia/{path.name}" for path in packed.iterdir()]
    done = subprocess.run(
        ["git", "check-ignore", *names], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
