"""The tables of `rda runs` and `rda compare`, as a terminal shows them."""

import pytest
from rich.console import Console

from rda.report.comparison import build_comparison
from rda.report.summary import summarise
from rda.report.tables import comparison_table, runs_table
from rda.report.terminal import render_terminal


def shown(table, width=80):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def compared(records):
    return comparison_table(build_comparison(records))


def listed(records):
    return runs_table([summarise(record) for record in records])


@pytest.fixture
def records(write_run):
    rows = [{"step": 1, "loss": 0.0125, "accuracy": 0.991}]
    return [
        write_run(
            "multicopy-RDA-sigmoid-id-seed0",
            unit="RDA-sigmoid-id",
            small=True,
            rows=rows,
            step=12_310,
            seconds=1000.0,
            goal_step=12_310,
            trailing_goal_step=12_400,
        ),
        write_run("b", unit="LSTM", small=True, step=700, state="failed", reason="no memory"),
    ]


def test_all_facts_of_the_runs_fit_eighty_columns(records):
    text = shown(listed(records))
    assert all(len(line) <= 80 for line in text.splitlines())
    for fact in ("multicopy-RDA-sigmoid-id-seed0", "12,310", "12.3", "0.0125", "0.991", "failed"):
        assert fact in text
    assert "…" not in text
    assert "LSTM on multicopy, small" in text
    assert "no memory" in text


def test_all_facts_of_a_comparison_fit_eighty_columns(records):
    text = shown(compared(records))
    assert all(len(line) <= 80 for line in text.splitlines())
    for fact in ("12,310", "12,400", "16 min 40 s", "> 700, failed", "0.991", "accuracy > 0.99"):
        assert fact in text
    assert "hidden_size 64" in text
    assert "LSTM: no memory" in text


def test_a_seed_is_not_held_against_the_paper(write_run):
    text = shown(compared([write_run(name, recipe={"seed": 3}) for name in ("a", "b")]))
    assert "seed 3" in text
    assert "unlike the paper" not in text


def test_the_winner_stands_on_top(records):
    text = shown(compared(records[::-1]))
    assert text.index("RDA-sigmoid-id") < text.index("LSTM")


def test_a_task_without_a_goal_is_compared_by_its_metric(write_run):
    text = shown(compared([write_run("a", "mnist", step=10, test={"test_accuracy": 0.9876})]))
    assert "0.9876" in text
    assert "goal" not in text


def test_a_name_in_brackets_is_shown_as_it_is(write_run):
    runs = [
        write_run(name, state="failed", reason="[bold]why[/]") for name in ("[red]x", "[bold]y")
    ]
    for text in (shown(listed(runs)), shown(compared(runs))):
        assert "[red]x" in text
        assert "[bold]y" in text
        assert "[bold]why[/]" in text


@pytest.mark.parametrize("width", [20, 60, 200])
def test_odd_runs_have_rows_at_any_width(odd_runs, width):
    assert shown(listed(odd_runs), width)
    assert shown(render_terminal(build_comparison(odd_runs), width), width)


def test_no_runs_are_an_empty_table_and_no_comparison():
    assert "run" in shown(runs_table([]))
    with pytest.raises(ValueError, match="no runs"):
        build_comparison([])
