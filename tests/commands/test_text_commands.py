"""rda train text, rda generate and rda evaluate, as a person uses them."""

import re
import subprocess
import sys

import pytest

from rda.cli import main
from rda.report.surprise import BOUNDS, level

TEXT = "She sells sea shells by the sea shore. <b>Größe</b> & more!\n" * 40


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "corpus.txt").write_text(TEXT)
    small = "--small --hidden-size 8 --batch-size 4 --segment 10 --steps 30 --evaluate-every 15"
    text = ["train", "text", "RDA-exp-tanh", "--file", str(folder / "corpus.txt"), *small.split()]
    where = ["--runs-dir", str(folder / "runs"), "--threads", "1", "--device", "cpu"]
    assert main([*text, "--name", "mine", *where]) == 0
    other = "train addition RWA --small --hidden-size 4 --batch-size 2 --steps 2 --name other"
    assert main([*other.split(), *where]) == 3
    return folder


def run(runs, *line):
    return main([*line, "--runs-dir", str(runs / "runs")])


def test_training_says_what_the_model_writes(runs, capsys):
    line = ["train", "text", "GRU", "--file", str(runs / "corpus.txt"), "--small", "--steps", "2"]
    assert run(runs, *line, "--evaluate-every", "1", "--hidden-size", "8", "--name", "gru") == 0
    told = capsys.readouterr().out
    assert "step 1 writes: " in told
    assert "test bits" in told


def test_a_text_is_written_as_its_seed_says(runs, capsys):
    texts = []
    for seed in ("1", "1", "2"):
        assert (
            run(runs, "generate", "mine", "--prompt", "She", "--length", "50", "--seed", seed) == 0
        )
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("She")
    assert len(texts[0]) == 3 + 50 + 1


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, "She\u241b[2J"), (False, "She\x1b[2J")])
def test_a_terminal_shows_control_characters_and_a_pipe_gets_them(
    runs, capsys, monkeypatch, is_terminal, shown
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert run(runs, "generate", "mine", "--prompt", "She\x1b[2J", "--length", "5") == 0
    assert capsys.readouterr().out.startswith(shown)


def test_a_text_streams_and_a_closed_pipe_ends_it_quietly(runs):
    line = [sys.executable, "-m", "rda", "generate", str(runs / "runs" / "mine")]
    with subprocess.Popen(
        [*line, "--length", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert len(process.stdout.read(100)) == 100
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_text_is_evaluated_and_shown(runs, capsys, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(TEXT[:200] + "\u4e00\x07")
    line = ["evaluate", "mine", "--file", str(other), "--page", str(tmp_path / "page.html")]
    assert run(runs, *line) == 0
    told = capsys.readouterr().out
    assert "bits per character over 201 characters" in told
    assert "It does not know 2 characters" in told
    page = (tmp_path / "page.html").read_text()
    shown = page[page.index('<pre class="text">') :]
    assert "&lt;" in shown
    assert "<b>" not in shown
    assert "\u2407" in shown
    assert "as RDA-exp-tanh reads it" in page


def test_the_text_of_training_is_recognised(runs, capsys, tmp_path):
    said = "The model was trained with this very text"
    page = ["--page", str(tmp_path / "page.html")]
    (tmp_path / "other.txt").write_text(TEXT.replace("sea", "sky"))
    for file, is_known in ((runs / "corpus.txt", True), (tmp_path / "other.txt", False)):
        assert run(runs, "evaluate", "mine", "--file", str(file), *page) == 0
        assert (said in capsys.readouterr().out) == is_known


def test_the_bits_are_told_even_where_the_page_cannot_be_written(runs, capsys, tmp_path):
    line = ["evaluate", "mine", "--file", str(runs / "corpus.txt"), "--page", str(tmp_path)]
    assert run(runs, *line) == 2
    told = capsys.readouterr()
    assert "bits per character" in told.out
    assert f"{tmp_path} cannot be written: Is a directory" in told.err
    assert run(runs, *line[:-1], str(tmp_path / "new" / "page.html")) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("generate nothing", "unknown run 'nothing'"),
        ("generate other", "run other was trained on addition, and not on text"),
        ("generate mine --temperature -1", "temperature should be 0 or more"),
        ("generate mine --top-p 0", "top_p should be above 0"),
        ("generate mine --length x", "--length"),
        ("evaluate mine", "needs a text, --file other.txt, or sequences"),
        ("evaluate mine --file nowhere", "there is no file nowhere"),
        ("evaluate other --file nowhere", "was trained on addition"),
        ("evaluate mine --file {empty}", "nothing to evaluate"),
        ("evaluate mine --file {binary}", "is not UTF-8 near byte 0\n"),
        ("train text RDA-exp-tanh", "text needs a text: --file"),
        ("train text RDA-exp-tanh --small", "text needs a text: --file"),
        ("train text RDA-exp-tanh --file {empty}", "at least 1,000 characters"),
        ("train text RDA-exp-tanh --file {binary} --small", "--read-as bytes"),
    ],
)
def test_what_is_wrong_is_one_line(runs, capsys, line, said, tmp_path):
    files = {"empty": tmp_path / "empty", "binary": tmp_path / "binary"}
    files["empty"].write_text("")
    files["binary"].write_bytes(b"\xff" * 2000)
    assert run(runs, *line.format(**files).split()) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not (runs / "runs" / "text-RDA-exp-tanh-seed0").exists()


def test_bytes_of_any_file_can_be_learned_and_written(runs, capsys, tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(256)) * 8)
    line = f"train text RWA --file {path} --read-as bytes --small --steps 3 --hidden-size 4"
    assert run(runs, *line.split(), "--name", "bytes") == 0
    assert run(runs, "generate", "bytes", "--length", "20") == 0
    assert run(runs, "evaluate", "bytes", "--file", str(path), "--page", str(tmp_path / "p")) == 0
    assert "bits per byte over 2,047 bytes" in capsys.readouterr().out


def test_the_page_of_a_model_of_bytes_shows_whole_characters(runs, tmp_path):
    line = f"train text RWA --file {runs / 'corpus.txt'} --read-as bytes --small --steps 1"
    assert run(runs, *line.split(), "--hidden-size", "4", "--name", "of-bytes") == 0
    text = "na\u00efve \u65e5\u672c"
    (tmp_path / "other.txt").write_text(text)
    page = tmp_path / "page.html"
    line = f"evaluate of-bytes --file {tmp_path / 'other.txt'} --page {page}"
    assert run(runs, *line.split()) == 0
    shown = re.search('<pre class="text">(.*?)</pre>', page.read_text(), re.DOTALL)[1]
    parts = re.findall(r'<span(?: class="s(\d)")?>(.*?)</span>', shown, re.DOTALL)
    assert "".join(part for _, part in parts) == text
    # Three bytes at about 8 bits each: an untrained model knows nothing.
    assert parts[-1] == (str(level(24)), text[-2:])


def test_colours_grow_with_the_surprise():
    assert [level(bound) for bound in (0.0, *BOUNDS)] == list(range(len(BOUNDS) + 1))
