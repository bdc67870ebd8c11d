"""Which unit suits people's own sequences: intervals, baselines, equal terms, and the page."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made_data import waves, write_csv

from rda.choosing.baselines import baselines_of, season_of
from rda.choosing.contest import (
    kept_bytes,
    longer_may_help,
    on_equal_terms,
    parameters,
    resized,
)
from rda.choosing.entries import entry_of
from rda.choosing.statistics import difference, interval, per_piece, wilson
from rda.choosing.terms import Terms
from rda.choosing.verdict import verdict
from rda.cli import main
from rda.commands.choosing import command_to_use
from rda.sequences.dataset import Target, from_arrays
from rda.sequences.stored import hold
from rda.training.outcomes import Outcomes, joined
from rda.training.record import Record
from rda.training.settings import settings_for

CPU = torch.device("cpu")


def source_of(sequences, **changes):
    changes = {"data": hold(sequences), "steps": 10, **changes}
    return settings_for("sequences", "RWA", False, changes).task.open(CPU)


@pytest.mark.parametrize("count", [60, 300])
def test_a_unit_that_answers_as_a_baseline_does_differs_from_it_by_nothing(count):
    generator = np.random.default_rng(0)
    sequences = [generator.normal(size=(8, 1)) for _ in range(count)]
    answers = np.array([one.mean() for one in sequences])
    answers[generator.random(count) < 0.35] = np.nan
    baselines = baselines_of(source_of(from_arrays(sequences, answers), steps=10))
    for found in baselines.values():
        same = joined([found.true], [found.predicted], [found.piece])
        one, other = (entry_of(name, [each], False) for name, each in (("a", same), ("b", found)))
        assert difference(one.results, other.results) == (0.0, 0.0, 0.0)


class TestStatistics:
    def test_an_interval_holds_the_truth_as_often_as_it_says(self):
        generator = np.random.default_rng(0)
        inside = 0
        for _ in range(60):
            right = (generator.random(80) < 0.8).astype(float)
            _, low, high = interval([per_piece(right, np.arange(80))])
            inside += low <= 0.8 <= high
        assert inside >= 50  # 57 are expected; fewer than 50 have a probability below 1e-3

    def test_many_answers_of_one_sequence_are_not_many_sequences(self):
        values = np.repeat(np.random.default_rng(0).random(10), 100)
        _, low, high = interval([per_piece(values, np.repeat(np.arange(10), 100))])
        _, sure, surer = interval([per_piece(values, np.arange(1000))])
        assert high - low > 5 * (surer - sure)

    def test_a_difference_on_the_same_sequences_is_found_where_single_scores_hide_it(self):
        base = np.random.default_rng(0).random(50)
        one = [per_piece(base + 0.01, np.arange(50))]
        other = [per_piece(base, np.arange(50))]
        mean, low, _ = difference(one, other)
        assert mean == pytest.approx(0.01)
        assert low > 0
        assert interval(one)[1] < interval(other)[0]

    def test_a_share_of_one_is_still_in_doubt(self):
        low, high = wilson(1.0, 96)
        assert round(low, 3) == 0.962
        assert high == pytest.approx(1.0)


class TestBaselines:
    def test_labels(self):
        found = baselines_of(source_of(waves(60)))
        common, linear = found.values()
        assert list(found) == ["the commonest class", "logistic regression on simple features"]
        assert len(common.true) == len(linear.true) == 8
        assert (common.true == common.predicted).mean() == 0.5

    def test_numbers_that_a_line_predicts(self):
        sequences = waves(60)
        means = [piece[:, 1].mean() for piece in np.split(sequences.values, sequences.starts[1:])]
        target = Target("mean", 5.0 * np.array(means) + 3)
        mean, linear = baselines_of(source_of(replace(sequences, target=target))).values()
        assert np.abs(linear.true - linear.predicted).mean() < 0.2
        assert np.abs(mean.true - mean.predicted).mean() > 1

    def test_a_season_is_found_and_repeated(self):
        t = np.arange(300.0)
        series = np.sin(2 * np.pi * t / 12) + 0.01 * np.random.default_rng(0).normal(size=300)
        source = source_of(from_arrays([series]), horizon=3, window=50)
        assert season_of(source) == 12
        last, seasonal = baselines_of(source).values()
        assert np.abs(seasonal.true - seasonal.predicted).mean() < 0.03
        assert np.abs(last.true - last.predicted).mean() > 0.3
        noise = from_arrays([np.random.default_rng(1).normal(size=300)])
        assert season_of(source_of(noise)) == 1


def test_all_models_have_nearly_as_many_weights():
    source = source_of(waves(60))
    runs = [
        settings_for("sequences", unit, False, {"data": hold(waves(60)), "steps": 10})
        for unit in ("RDA-exp-tanh", "RWA", "LSTM", "GRU")
    ]
    counts = [parameters(run, source) for run in on_equal_terms(runs, Terms(), source)]
    assert max(counts) < 1.05 * min(counts)
    equal = on_equal_terms(runs, Terms(equal="units"), source)
    assert len({run.recipe.hidden_size for run in equal}) == 1


def test_other_sizes_match_those_of_the_first_unit():
    source = source_of(waves(60))
    first, other = (
        settings_for("sequences", unit, False, {"data": hold(waves(60)), "steps": 10})
        for unit in ("RDA-exp-tanh", "LSTM")
    )
    small, matched = (resized(run, first, 16, Terms(), source) for run in (first, other))
    assert small.recipe.hidden_size == 16
    assert parameters(matched, source) == pytest.approx(parameters(small, source), rel=0.1)
    assert resized(other, first, 16, Terms(equal="units"), source).recipe.hidden_size == 16
    assert kept_bytes(matched, source) > 4 * 16 * 15 * 8  # at least h of each step of each row


def test_runs_that_have_had_their_minutes_get_no_more(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "a.csv", waves(40))
    line = ["compare", "--data", str(path), "RWA", "--steps", "100000", "--hidden-size", "4"]
    line += ["--seeds", "1", "--rates", "0.01", "--sizes", "", "--minutes", "0.01"]
    line += ["--evaluate-every", "5", "--runs-dir", str(tmp_path / "runs")]
    assert main(line) == 0
    (run,) = (tmp_path / "runs").glob("sequences-*")
    before = Record(run).status
    assert before.state == "stopped"
    assert main(line) == 0
    assert Record(run).status == before


@pytest.mark.parametrize("part", ["validation", "test"])
def test_units_are_not_compared_on_nothing(tmp_path, capsys, part):
    path = write_csv(tmp_path / "a.csv", waves(40))
    line = ["compare", "--data", str(path), "RWA", f"--{part}", "0", "--runs-dir", str(tmp_path)]
    assert main(line) == 2
    assert f"{part} should be above 0 to compare units" in capsys.readouterr().err


def test_terms_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="rates should be numbers"):
        Terms(rates="fast")
    with pytest.raises(ValueError, match="seeds should be 1 or more"):
        Terms(seeds=0)
    for sizes in ("large", "0", "8,-1", "1.5"):
        with pytest.raises(ValueError, match="sizes should be whole numbers from 1"):
            Terms(sizes=sizes)
    assert Terms(sizes="").hidden_sizes == ()


def entry(name, right, records=("a record",), **facts):
    """One with right and wrong answers; or with errors, where `right` has other numbers."""
    true = np.ones(len(right))
    outcomes = Outcomes(true, np.array(right, dtype=float), np.arange(len(right)))
    return replace(entry_of(name, [outcomes], True, records), **facts)


def errors(name, values, records=("a record",), **facts):
    """An entry whose answers are so far off, each of a sequence of its own."""
    outcomes = Outcomes(np.zeros(len(values)), np.array(values, float), np.arange(len(values)))
    return replace(entry_of(name, [outcomes], False, records), **facts)


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
        "A has the best mean absolute error on the test part: 1 (no interval: one sequence)."
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


def test_of_units_with_the_same_score_the_first_that_was_asked_for_is_taken():
    entries = [entry("A", [1] * 9 + [0]), entry("B", [0] + [1] * 9), entry("C", [1, 0] * 5)]
    found = judged(*entries)
    assert found.advice.startswith("A and B have the best accuracy on the test part: 0.9 ")
    assert "A was asked for first, and is taken for it." in found.advice
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


def test_the_command_compares_and_does_not_train_twice(tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", waves(40))
    line = ["compare", "--data", str(path), "RWA", "GRU", "--steps", "4", "--hidden-size", "4"]
    line += ["--seeds", "2", "--rates", "0.01,0.003", "--runs-dir", str(tmp_path / "runs")]
    line += ["--sizes", "8"]
    assert main(line) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "has the best accuracy on the test part" in said
    needs_none = any(words in said for words in ("nothing here shows", "take that"))
    assert ("use it: rda predict " in said) != needs_none
    (run, *_) = (tmp_path / "runs").glob("sequences-*")
    assert main(["predict", str(run), "--data", str(path)]) == 0
    assert capsys.readouterr().out.count("\n") == 41  # 40 sequences and the names of columns
    (page,) = (tmp_path / "runs").glob("compare-*/index.html")
    text = page.read_text()
    for words in ("Which unit suits a.csv", "logistic regression", "RWA", "GRU", "40 sequences"):
        assert words in text
    runs = sorted((tmp_path / "runs").glob("sequences-*/metrics.jsonl"))
    assert len(runs) == 2 * (2 + 1 + 1)
    before = [run.stat().st_mtime_ns for run in runs]
    assert main(line) == 0
    assert [run.stat().st_mtime_ns for run in runs] == before


def test_the_command_compares_numbers_too(tmp_path, capsys):
    sequences = waves(30)
    path = tmp_path / "a.csv"
    rows = ["id,a,y"]
    for name, start, length in zip(sequences.ids, sequences.starts, sequences.lengths, strict=True):
        some = sequences.values[start : start + length, 0]
        rows += [f"{name},{value!r},{some.sum()!r}" for value in some.tolist()]
    path.write_text("\n".join(rows).replace("np.float64(", "").replace(")", ""))
    line = ["compare", "--data", str(path), "RWA", "--steps", "4", "--hidden-size", "4"]
    line += ["--seeds", "1", "--rates", "0.01", "--runs-dir", str(tmp_path / "runs")]
    line += ["--sizes", ""]
    assert main(line) == 0
    assert "mean absolute error" in capsys.readouterr().out.replace("\n", " ")
    (page,) = (tmp_path / "runs").glob("compare-*/index.html")
    assert "data:image/png;base64" in page.read_text()
