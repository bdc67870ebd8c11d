"""Which unit suits people's own sequences: intervals, baselines, equal terms, and the page."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_data import waves, write_csv

from rda.choosing.baselines import baselines_of, season_of
from rda.choosing.contest import (
    kept_bytes,
    on_equal_terms,
    parameters,
    resized,
)
from rda.choosing.entries import entry_of
from rda.choosing.statistics import difference, interval, per_piece, wilson
from rda.choosing.terms import Terms
from rda.cli import main
from rda.sequences.dataset import Target, from_arrays
from rda.sequences.stored import hold
from rda.training.outcomes import joined
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
