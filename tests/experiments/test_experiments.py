"""The paper's experiments as data."""

import argparse
import shlex

import pytest

from rda.cli import build_parser
from rda.commands.training import settings_from
from rda.experiments.catalogue import chosen, experiments, runs_by_name
from rda.experiments.lines import train_line
from rda.experiments.paper import TABLES, Published, find_table
from rda.labels import COMPARED, RDA_LABELS
from rda.tasks import find_task
from rda.training.settings import default_name


def test_every_table_has_all_five_units_and_its_task_says_so():
    for table in TABLES:
        assert set(table.published) == set(COMPARED)
        task = find_task(table.task)
        assert f"Table {table.number}" in task.reference
        assert (task.goal is not None) == (table.measure == "goal_step")
        assert table.measure in ("goal_step", task.metric)
    assert sorted(table.panel for table in TABLES if table.panel) == list("abcdef")


def test_published_numbers_read_as_in_the_paper():
    addition, mnist, wikipedia = map(find_table, ("addition", "mnist", "wikipedia"))
    assert str(addition.published["LSTM"]) == "> 10,000"
    assert str(addition.published["RDA-exp-tanh"]) == "1,781"
    assert str(mnist.published["RDA-sigmoid-id"]) == "0.987"
    assert str(wikipedia.published["LSTM"]) == "1.492"
    assert find_table("alternating") is None
    assert str(Published(20_000, beyond=True)) == "> 20,000"


def test_tables_ask_for_as_many_seeds_as_promised():
    known = experiments()
    for table in TABLES:
        runs = known[table.name].runs
        assert len(runs) == 5 * table.seeds == len({default_name(run) for run in runs})
        assert {run.task.name for run in runs} == {table.task}
    assert {run.unit for run in known["activations"].runs} == set(RDA_LABELS)
    assert len(known["activations"].runs) == 8 * 2 * 3
    assert "wikipedia" not in {run.task.name for run in known["appendix-b"].runs}


def test_experiments_share_their_runs():
    everything = chosen(["all"], seeds=0, small=False)
    names = runs_by_name(everything)
    tables = sum(5 * table.seeds for table in TABLES)
    shared = 2 * 2 * 3  # exp-tanh and sigmoid-id on addition and multicopy
    lemma = 6 * 2 * 3
    assert len(names) == tables + 8 * 2 * 3 - shared + lemma
    assert not any(found.name.startswith("study") for found in everything)


def test_a_wrong_name_is_told_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'table-1'"):
        chosen(["table1"], seeds=0, small=False)


def test_only_some_units():
    found = chosen(["table-5", "lemma-1", "study-gru"], units="RWA, LSTM")
    assert {one.name: {run.unit for run in one.runs} for one in found} == {
        "table-5": {"RWA", "LSTM"},
        "lemma-1": {"RWA"},
    }
    with pytest.raises(ValueError, match=r"unknown unit 'RWB'\. Did you mean 'RWA'"):
        chosen(["table-5"], units="RWB")
    with pytest.raises(ValueError, match="none of these experiments has a run of LSTM"):
        chosen(["study-gru"], units="LSTM")


@pytest.mark.parametrize("small", [False, True])
def test_every_run_is_one_command_away(small):
    """The command line of each run gives its settings back."""
    for name, settings in runs_by_name(experiments(1, small).values()).items():
        line = train_line(settings)
        assert line[0] == "train"
        if not name.rpartition("-")[2].startswith("seed"):
            assert len(line) > 3  # a run with other settings than the usual ones
        asked = build_parser(line).parse(line, argparse.Namespace(start=None))
        assert settings_from(asked, settings.unit) == settings, shlex.join(line)
