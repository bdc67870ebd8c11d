"""Tasks from outside the package: found, checked, and refused with a reason."""

import importlib
import inspect
import subprocess
import sys
import warnings
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from typing import Literal

import pytest

import rda
from rda.cli import build_parser, main
from rda.tasks import (
    Batch,
    Goal,
    Task,
    TaskError,
    TaskWarning,
    all_tasks,
    find_task,
    register,
    registry,
)
from rda.training.settings import default_name, full_settings, with_changes

BUILT_IN = [
    "addition", "alternating", "classify-length", "copy", "multicopy", "mnist", "mnist-permuted",
    "sequences", "text", "wikipedia",
]  # fmt: skip

OWN = '''
from dataclasses import dataclass
from rda.tasks import Batch, Task, register

@register
@dataclass(frozen=True)
class Own(Task):
    """Do something of your own."""
    name = "own"
    title = "Own"
    size: int = 3
'''


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.delenv("RDA_TASKS", raising=False)
    monkeypatch.setattr(registry, "_tasks", all_tasks())
    monkeypatch.setattr(registry, "_loaded", set(registry._loaded))
    monkeypatch.setattr(registry, "_unusable", {})


def test_the_tasks_of_this_folder_come_first_and_need_no_torch():
    code = "import sys; from rda.tasks import all_tasks; print(*all_tasks()); "
    code += "assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == BUILT_IN


def test_every_task_of_the_folder_is_registered_by_its_own_file():
    """Adding a task touches one file: no other names it."""
    from pathlib import Path

    folder = Path(registry.__file__).parent
    for path in folder.parent.rglob("*.py"):
        if path.parent != folder:
            assert "rda.tasks.addition" not in path.read_text(), path
    assert list(all_tasks())[: len(BUILT_IN)] == BUILT_IN


def test_a_file_and_a_module_are_found_through_the_environment(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "theirs.py").write_text(OWN.replace('"own"', '"theirs"'))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RDA_TASKS", f"{tmp_path / 'own.py'}:theirs")
    assert {"own", "theirs"} <= all_tasks().keys()
    assert find_task("own")().size == 3
    assert all_tasks() == all_tasks()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise RuntimeError('broken\\nhere')", "RuntimeError: broken"),
        ("import nothing_of_this_name", "nothing_of_this_name"),
        ("x = (", "SyntaxError"),
        (OWN.replace('"own"', '"copy"'), "already defined by rda.tasks.copying"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, monkeypatch, content, said):
    (tmp_path / "own.py").write_text(content)
    monkeypatch.setenv("RDA_TASKS", str(tmp_path / "own.py"))
    with pytest.warns(TaskWarning, match=r"own\.py of \$RDA_TASKS cannot be used") as caught:
        tasks = all_tasks()
    assert {"copy", "multicopy"} <= tasks.keys()
    (told,) = caught
    assert said in str(told.message)
    assert "\n" not in str(told.message)
    all_tasks()  # told once, and again where it is asked for
    with pytest.raises(
        TaskError, match=r"unknown task 'own'.*own\.py of \$RDA_TASKS cannot be used"
    ):
        find_task("own")


def test_a_file_that_is_also_imported_is_one_task(tmp_path, monkeypatch):
    (tmp_path / "both_ways.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RDA_TASKS", str(tmp_path / "both_ways.py"))
    assert "own" in all_tasks()
    imported = importlib.import_module("both_ways")
    assert find_task("own") is imported.Own


def test_a_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("RDA_TASKS", "nowhere/own.py")
    with pytest.warns(TaskWarning, match=r"nowhere/own\.py.*: there is no file .*own\.py"):
        all_tasks()


def test_a_task_that_cannot_be_made_does_not_stop_the_others(tmp_path, monkeypatch):
    small = "    @classmethod\n    def small(cls):\n        return Preset(cls(size=2))\n"
    slip = OWN.replace("size: int = 3", "size = 3").replace("Batch, Task", "Preset, Task") + small
    (tmp_path / "slip.py").write_text(slip)
    monkeypatch.setenv("RDA_TASKS", str(tmp_path / "slip.py"))
    with pytest.warns(TaskWarning, match=r"task 'own' cannot be used.*'size'.*`length: int = 20`"):
        tasks = all_tasks()
    assert "copy" in tasks
    assert "own" not in tasks


def test_an_installed_package_brings_tasks_along(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    points = [
        EntryPoint("own", "brought", "rda.tasks"), EntryPoint("bad", "not_there", "rda.tasks"),
    ]  # fmt: skip
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._loaded.discard("rda.tasks")
    with pytest.warns(UserWarning, match="not_there cannot be used"):
        tasks = all_tasks()
    assert "own" in tasks


def test_an_unknown_task_gets_the_nearest_name_and_the_way_to_add_one():
    with pytest.raises(ValueError, match=r"Did you mean 'copy'.*\$RDA_TASKS"):
        find_task("coppy")


def not_a_dataclass():
    class Own(Task):
        """Something."""

        name, title = "own", "Own"
        size: int = 3

    return Own


def made(**attributes):
    attributes = {"name": "own", "title": "Own", "__doc__": "Something.", **attributes}
    return dataclass(frozen=True)(type("Own", (Task,), attributes))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (lambda: 3, "derived from rda.tasks.Task"),
        (not_a_dataclass, "@dataclass"),
        (lambda: made(name="Own Task"), "lower-case"),
        (lambda: made(name=None), "lower-case"),
        (lambda: made(title=None), "title"),
        (lambda: made(__doc__=None), "docstring"),
        (lambda: made(seed=1, __annotations__={"seed": int}), "seed is the name of a built-in"),
        (lambda: made(start=1, __annotations__={"start": int}), "start is the name of a built-in"),
        (lambda: made(size=(), __annotations__={"size": tuple}), "int, float, bool, str"),
        (lambda: made(size=1, __annotations__={"size": Literal[1, 2]}), "a Literal of str"),
        (lambda: made(goal=Goal("acuracy", ">", 0.9)), "loss or accuracy, got 'acuracy'"),
    ],
    ids=[
        "no class", "no dataclass", "name", "no name", "title", "docstring", "reserved", "ours",
        "type", "numbers", "goal",
    ],
)  # fmt: skip
def test_a_task_that_cannot_work_is_refused_when_it_is_registered(task, said):
    with pytest.raises(TypeError, match=said):
        register(task())


def test_what_a_task_leaves_out_is_named_when_it_is_missed():
    task = made()()
    for name in ("input_size", "output_size"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(task, name)
    with pytest.raises(NotImplementedError, match="batch"):
        task.batch(None, 3)


def test_registering_a_class_again_replaces_it():
    """As a notebook does, where a cell is run twice."""
    assert register(register(made())) is find_task("own")
    assert isinstance(Batch(1, 2), tuple)


def name_of_a_run(**attributes):
    register(made(**attributes))
    return default_name(with_changes(full_settings("own", "GRU"), {"hidden_size": 9}))


def test_an_own_setting_is_part_of_a_runs_name_unless_the_task_says_that_it_was_added_later():
    kinds = {"counted": int}  # a name that copy and multicopy have too
    names = [name_of_a_run(counted=value, __annotations__=kinds) for value in (1, 2)]
    assert len({*names, name_of_a_run()}) == 3
    later = name_of_a_run(counted=1, __annotations__=kinds, added_later=("counted",))
    assert later == name_of_a_run()


def names_of_options():
    """What argparse and `rda.train` call everything that can be given beside a task's own."""
    found = {*inspect.signature(rda.train).parameters} - {"changes"}
    for command in ("train", "compare"):
        parser = build_parser([command, "copy"])
        for name in (command, "copy"):
            (subparsers,) = parser._subparsers._group_actions
            parser = subparsers.choices[name]
        found |= {*parser._defaults, *(action.dest for action in parser._actions)}
        found |= {name.lstrip("-").replace("-", "_") for name in parser._option_string_actions}
    return sorted(found - {part.name for part in fields(find_task("copy"))} - {"h", "name"})


def test_a_setting_cannot_have_the_name_of_an_option():
    """argparse refuses a name that is given twice, and with it every task's command line."""
    names = names_of_options()
    assert {"accumulate", "gpus", "no_learn_initial_state", "folder", "unit"} <= {*names}
    for name in names:
        task = made(**{name: 1, "__annotations__": {name: int}})
        with pytest.raises(TypeError, match=f"{name} is .*: rename it"):
            register(task)
    twice = made(quick=True, no_quick=1, __annotations__={"quick": bool, "no_quick": int})
    with pytest.raises(TypeError, match="no_quick is how quick is turned off: rename it"):
        register(twice)


def test_a_task_whose_setting_has_the_name_of_an_option_stops_no_other(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "own.py").write_text(OWN.replace("size:", "accumulate:"))
    monkeypatch.setenv("RDA_TASKS", str(tmp_path / "own.py"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train", "copy", "--help"]) == 0
    told = capsys.readouterr()
    assert "--accumulate" in told.out
    assert "Own.accumulate is the name of a built-in setting: rename it" in told.err
