"""Whatever is typed: the right thing, or exit code 2 and one line; never a traceback."""

import contextlib
import io
import string
import tempfile
from itertools import chain
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rda
from rda.cli import COMMANDS, main
from rda.labels import UNIT_LABELS
from rda.tasks import Task, all_tasks
from rda.training.settings import small_settings, to_table

TASKS = all_tasks()
SYNTHETIC = [name for name, task in TASKS.items() if task.batch is not Task.batch]
OPTIONS = [
    "--length", "--longest", "--symbols", "--alphabet", "--delay", "--copies", "--hidden-size",
    "--batch-size", "--learning-rate", "--clip", "--reduction", "--learn-initial-state",
    "--no-learn-initial-state", "--precision", "--evaluate-every", "--seed", "--steps",
    "--minutes", "--stop-at", "--device", "--engine", "--threads", "--name", "--data-dir",
    "--checkpoint-minutes", "--force", "--tensorboard", "--small", "--pool", "--images",
    "--permutation-seed", "--segment", "--embedding", "--help", "-h", "--", "-", "--no-force",
    "--hidden_size", "--task.length", "--recipe", "--nothing", "--schedule", "--warmup-steps",
    "--schedule-steps", "--final-learning-rate", "--clip-norm", "--not-finite",
]  # fmt: skip
VALUES = [
    "0", "1", "2", "3", "-1", "0.5", "1e-3", "nan", "inf", "-inf", "1e400", "", " ", "x", "None",
    "True", "mean", "sum", "goal", "trailing", "never", "cpu", "auto", "reference", "float32",
    "bfloat16", "../..", "a/b", "[red]", "99999999999999999999999", "0x10", "1_0", "²", "é", "\x00",
    "\n", "--steps", "runs", "--length=3", "--seed=x", "hpu", "cosine", "linear", "skip", "%s",
]  # fmt: skip
FAST = ["--small", "--steps", "2", "--threads", "1"]

word = st.one_of(
    st.sampled_from([*OPTIONS, *VALUES, *COMMANDS, *TASKS, *UNIT_LABELS]),
    st.text(string.printable + "é\u2028\ud800", max_size=8),
)
option = st.one_of(
    st.tuples(st.sampled_from(OPTIONS), st.sampled_from(VALUES)).map(list),
    st.sampled_from(OPTIONS).map(lambda name: [name]),
)
train_line = st.builds(
    lambda task, unit, options: ["train", task, unit, *FAST, *chain(*options)],
    st.sampled_from(SYNTHETIC),
    st.sampled_from(UNIT_LABELS),
    st.lists(option, max_size=3),
)
compare_line = st.builds(
    lambda task, units, options: ["compare", task, *units, *FAST, *chain(*options)],
    st.sampled_from(SYNTHETIC),
    st.lists(st.sampled_from(["RWA", "GRU"]), min_size=1, max_size=2),
    st.lists(option, max_size=2),
)
other_line = st.builds(
    lambda command, words: [command, *words],
    st.sampled_from(["runs", "show", "data", "doctor", "demo", "nothing", "--version", "help"]),
    # `data fetch` would download, and `demo --no-force` would train for minutes.
    st.lists(word.filter(lambda w: w not in ("fetch", "--no-force")), min_size=1, max_size=3),
).filter(lambda line: line[0] not in ("demo", "doctor") or line[1].startswith("--no"))
quick = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


@pytest.fixture(scope="module", autouse=True)
def _without_the_packaged_model():
    """With it `rda generate` alone is right, and says on stderr whose model it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rda, "PRETRAINED", Path("nothing"))
        yield


def outcome(line, folder):
    """The exit code, checked to be an honest one."""
    told, complaint = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(complaint),
    ):
        code = main(line)
    assert code in (0, 1, 2, 3), (line, code)
    if code == 2:
        said = complaint.getvalue()
        assert said.startswith("rda: ") or told.getvalue().startswith("usage: "), (line, said)
        assert len(said.splitlines()) <= 1, (line, said)
    else:
        assert not complaint.getvalue(), (line, complaint.getvalue())
    return code


def tried(line):
    with tempfile.TemporaryDirectory() as folder:
        outcome(line, folder)
        strangers = [path.name for path in Path(folder).iterdir() if path.name != "runs"]
        assert not strangers, (line, strangers)


@settings(quick, max_examples=120)
@example(["train", "addition", "RWA", *FAST, "--name", "a\x00b"])
@example(["train", "addition", "RWA", *FAST, "--runs-dir", "\x00"])
@example(["train", "addition", "RWA", *FAST, "--length", "²"])
@given(train_line)
def test_training_lines(line):
    tried(line)


@settings(quick, max_examples=40)
@given(compare_line)
def test_comparison_lines(line):
    tried(line)


@quick
@example(["show", "\x00"])
@example(["show", ""])
@example(["generate"])
@example(["data", "list", "--data-dir", "\x00"])
@given(st.one_of(other_line, st.lists(word, max_size=2).filter(lambda line: "demo" not in line)))
def test_other_lines(line):
    if line[:1] == ["train"] or line[:1] == ["compare"]:
        line = [*line, *FAST]
    tried(line)


leaf = st.one_of(
    st.sampled_from([0, 1, 2, 3, -1, 0.5, True, "", "mean", "x", 2**70, [], {}, [1], float("nan")]),
    st.text(max_size=5),
)


@st.composite
def settings_tables(draw):
    """The settings of a small run with a few things changed, added or gone."""
    table = to_table(small_settings(draw(st.sampled_from(SYNTHETIC)), "GRU"))
    table["limits"]["steps"] = 1
    for _ in range(draw(st.integers(0, 3))):
        section = draw(st.sampled_from(["task", "recipe", "limits", "unit", "other", ""]))
        keys = table[section] if isinstance(table.get(section), dict) else table
        known = sorted(set(keys) - {"steps"}) or ["x"]
        key = draw(st.one_of(st.sampled_from(known), st.text(min_size=1, max_size=5)))
        if draw(st.booleans()):
            keys[key] = draw(leaf)
        elif key not in ("task", "limits", "length", "longest", "copies", "delay", "hidden_size"):
            keys.pop(key, None)
    return table


@settings(quick, max_examples=120)
@given(settings_tables())
def test_settings_files(table):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "s.toml").write_bytes(tomli_w.dumps(table).encode(errors="replace"))
        outcome(["train", "s.toml", "--threads", "1"], folder)


@settings(quick, max_examples=100)
@given(
    st.one_of(
        st.binary(max_size=80), st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace"))
    )
)
def test_files_that_are_no_settings(content):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "s.toml").write_bytes(content)
        assert outcome(["train", "s.toml", "--steps", "1"], folder) == 2
