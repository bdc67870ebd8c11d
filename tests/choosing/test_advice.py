"""The advice says what the runs hold, and takes nothing from a stopwatch."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rda.choosing.contest import longer_may_help
from rda.choosing.entries import entry_of
from rda.choosing.verdict import verdict
from rda.commands.choosing import command_to_use
from rda.training.outcomes import Outcomes


def outcomes(true, predicted):
    """Answers of a sequence each."""
    count = len(predicted)
    columns = np.zeros(count, dtype=int)
    return Outcomes(np.full(count, true), np.array(predicted, float), np.arange(count), columns)


def entry(name, right, records=("a record",), **facts):
    """One with right and wrong answers."""
    return replace(entry_of(name, [outcomes(1.0, right)], True, records), **facts)


def errors(name, values, records=("a record",), **facts):
    """An entry whose answers are so far off."""
    return replace(entry_of(name, [outcomes(0.0, values)], False, records), **facts)


def judged(*entries, metric="accuracy", problem="label"):
    return verdict(SimpleNamespace(problem=problem), metric, entries, ())


GOOD, SAME, BAD = [1] * 95 + [0] * 5, [1] * 94 + [0] * 6, [1] * 40 + [0] * 60


def test_the_advice_says_when_a_difference_cannot_be_shown():
    entries = entry("A", SAME), entry("B", GOOD), entry("C", BAD), entry("simple", BAD, ())
    found = judged(*entries)
    assert [one.name for one in found.entries] == ["B", "A", "C", "simple"]
    assert found.advice.startswith("B has the best accuracy on the test part: 0.95 ")
    assert "B is better than C: on the same 100 sequences the 95% interval" in found.advice
    assert "B could not be told apart from A with 100 sequences." in found.advice
    assert (
        "The best baseline, simple, reaches 0.4 (0.309 to 0.498), and B is better." in found.advice
    )
    assert found.advice.endswith("Take B.")
    assert found.recommended.name == "B"


def test_a_baseline_is_never_called_as_good_for_want_of_sequences():
    """It is named beside the unit; which of them is better is left open."""
    few, fewer = entry("LSTM", [1] * 6), entry("simple", [1, 0] * 3, ())
    found = judged(few, fewer)
    assert "LSTM could not be told apart from simple with 6 sequences." in found.advice
    for equality in ("as good", "equal", "no recurrent unit", "nothing here shows"):
        assert equality not in found.advice
    assert found.recommended is few


def test_intervals_that_are_apart_are_said_to_be_so():
    """Two stretches of one series: no paired test can find a difference, however large."""
    gru, before = errors("GRU", [25.0, 26.0]), errors("the value before", [49.0, 50.0], ())
    found = judged(gru, before, metric="error", problem="forecast")
    assert (
        "The intervals of GRU and the value before are apart, but with 2 stretches of time a "
        "paired test cannot confirm it." in found.advice
    )
    assert "told apart" not in found.advice
    assert found.recommended is gru
    turned = judged(
        errors("GRU", [49.0, 50.0]), errors("the value before", [25.0, 26.0], ()),
        metric="error", problem="forecast",
    )  # fmt: skip
    assert turned.advice.endswith("No unit scored better: nothing here shows that one is needed.")
    assert turned.recommended is None


def test_seven_sequences_that_disagree_do_not_confirm_what_five_could_not():
    errs = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 1.0])
    found = judged(errors("A", errs), errors("B", [20, 20, 20, 20, 20, 8.9, 0.9]), metric="error")
    assert "with 7 sequences a paired test does not confirm it." in found.advice


def test_nothing_is_said_to_be_sure_of_one_sequence():
    found = judged(errors("A", [1.0]), errors("B", [30.0]), metric="error")
    assert found.advice.startswith(
        "A has the best mean absolute error on the test part: 1 (no interval)."
    )
    assert "A could not be told apart from B with 1 sequence." in found.advice


def test_a_unit_is_not_needed_where_a_baseline_scores_as_well_or_better():
    same = judged(entry("B", SAME), entry("simple", GOOD, ()))
    assert "The best baseline, simple, reaches 0.95" in same.advice
    assert "B could not be told apart from simple with 100 sequences." in same.advice
    assert same.advice.endswith("No unit scored better: nothing here shows that one is needed.")
    assert same.recommended is None
    beaten = judged(entry("B", BAD), entry("simple", GOOD, ()))
    assert "But simple is better, 0.95" in beaten.advice
    assert beaten.recommended is None
    nearly = judged(entry("B", GOOD), entry("simple", SAME, ()))
    assert nearly.recommended.name == "B"
    assert "No unit" not in nearly.advice


@pytest.mark.parametrize("speeds", [(100.0, 50.0, 900.0), (50.0, 900.0, 1.0), (0.0, 0.0, 0.0)])
def test_no_stopwatch_decides_which_unit_is_taken(speeds):
    entries = [
        entry(name, right, speed=speed)
        for (name, right), speed in zip(
            {"A": SAME, "B": GOOD, "C": BAD}.items(), speeds, strict=True
        )
    ]
    found = judged(*entries)
    assert found.recommended.name == "B"
    assert found.advice.endswith("Take B.")
    assert judged(entry("simple", BAD, ())).recommended is None


def test_a_quicker_unit_is_a_remark_where_it_is_as_near_as_one_per_cent():
    generator = np.random.default_rng(0)
    base = 10 + generator.random(200)
    first = errors("A", base, speed=50.0)
    near = errors("B", base + 0.01 + 0.01 * generator.random(200), speed=100.0)
    found = judged(first, near, metric="error")
    assert found.recommended is first
    assert found.advice.endswith(
        "Take A. B is within 1% of it and was quicker here: 100 steps a second, A 50."
    )
    far = errors("B", base + 0.2 * generator.random(200), speed=100.0)
    unsure = errors("B", base + 0.01 + generator.normal(size=200), speed=100.0)
    slower = replace(near, speed=55.0)
    for other in (far, unsure, slower):
        assert "quicker" not in judged(first, other, metric="error").advice
    few = errors("A", base[:10], speed=50.0), errors("B", base[:10], speed=100.0)
    assert "quicker" not in judged(*few, metric="error").advice


def test_the_same_answers_on_few_sequences_do_not_show_that_a_quicker_unit_is_near():
    for count, is_near in ((100, False), (1000, True)):
        right = [1] * (count - 10) + [0] * 10
        found = judged(entry("A", right, speed=50.0), entry("B", right, speed=100.0))
        assert ("B is within 1% of it" in found.advice) == is_near


def test_the_command_that_uses_a_unit_names_its_run(tmp_path, monkeypatch):
    monkeypatch.setenv("RDA_RUNS", str(tmp_path / "runs"))
    for folder, place in ((tmp_path / "runs" / "a b", "'a b'"), (tmp_path / "c", tmp_path / "c")):
        found = judged(entry("A", [1, 0], (SimpleNamespace(folder=folder),)))
        assert command_to_use(found) == f"rda predict {place} --data FILE"
    assert command_to_use(replace(found, recommended=None)) == ""


def test_a_few_sequences_prove_little():
    """Three of eight are no proof, whatever a bootstrap says; eight of eight are."""
    right, fewer, wrong = [1] * 8, [1] * 5 + [0] * 3, [0] * 8
    assert "A could not be told apart from B" in judged(entry("A", right), entry("B", fewer)).advice
    assert "A is better than B" in judged(entry("A", right), entry("B", wrong)).advice


def test_of_units_with_the_same_score_the_first_in_the_list_is_taken():
    entries = [entry("A", [1] * 9 + [0]), entry("B", [0] + [1] * 9), entry("C", [1, 0] * 5)]
    found = judged(*entries)
    assert found.advice.startswith("A and B have the best accuracy on the test part: 0.9 ")
    assert "A comes first of them in the list of units." in found.advice
    assert "A could not be told apart from B and C with 10 sequences." in found.advice
    assert found.recommended.name == "A"
    assert judged(*entries[::-1]).recommended.name == "B"


def recorded(folder, losses, state="finished", every=10):
    """A record of a validation loss at every tenth step."""
    steps = [every * i for i in range(1, len(losses) + 1)]
    return SimpleNamespace(
        curve=lambda name: (steps, list(losses)),
        status=SimpleNamespace(step=steps[-1], state=state),
        folder=folder,
    )


def test_a_loss_that_is_still_falling_is_told_before_anything_else_is_blamed(tmp_path):
    falling = recorded(tmp_path, np.linspace(2, 1, 20))
    timed = recorded(tmp_path, np.linspace(2, 1, 20), "stopped")
    at_rest = recorded(tmp_path, [2, 1.5, 1.2, *[1.0] * 17])
    hardly = recorded(tmp_path, [2, 1.5, 1.2, *np.linspace(1.0, 0.995, 17)])
    turned = recorded(tmp_path, [*np.linspace(2, 1, 15), *np.linspace(1, 1.4, 5)])
    once = recorded(tmp_path, [1.0])
    assert longer_may_help([falling]) == "--steps"
    assert longer_may_help([timed, timed]) == "--minutes"
    for one in (at_rest, hardly, turned, once):
        assert longer_may_help([one]) == ""
    assert longer_may_help([falling, at_rest]) == ""
    assert longer_may_help([falling, falling, at_rest]) == "--steps"
    entries = entry("A", SAME, may_help="--steps"), entry("simple", GOOD, ())
    told = judged(*entries).advice.split(". ")
    assert told[1] == (
        "The validation loss of A was still falling at the last step: more --steps may help"
    )
