"""The loop: what it learns, records, resumes, evaluates, and how it stops."""

import errno
import json
import math
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_runs import TEXT, TINY, TINY_RUNS, Silent, run_once, with_steps

from rda import files
from rda.labels import COMPARED
from rda.settings import Limits, Recipe
from rda.tasks import Source, Task, all_tasks
from rda.tasks.addition import Addition
from rda.tasks.copying import MultiCopy
from rda.training import checkpoint
from rda.training.building import build_stepper
from rda.training.record import METRICS, MODEL, Record
from rda.training.resources import DeviceError
from rda.training.run import Run
from rda.training.settings import RunSettings, identity, small_settings, with_changes
from rda.training.status import FAILED, FINISHED, INTERRUPTED, STOPPED, RecordError

SYNTHETIC = [name for name, task in all_tasks().items() if task.batch is not Task.batch]


def weights(folder):
    return checkpoint.unpack((folder / MODEL).read_bytes())[0]


def assert_same_run(first, second):
    assert (first / METRICS).read_bytes() == (second / METRICS).read_bytes()
    (newest, _), (other, _) = (
        checkpoint.load_latest(run / "checkpoints") for run in (first, second)
    )
    assert newest.tensors.keys() == other.tensors.keys()
    for name, tensor in newest.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name
    assert (first / MODEL).read_bytes() == (second / MODEL).read_bytes()


def shorter(settings):
    """Multicopy with 5 copies is learned in as many steps as with 20, each in a quarter of the
    time."""
    if settings.task.name == "multicopy":
        return with_changes(settings, {"copies": 5})
    return settings


class TestLearning:
    @pytest.mark.parametrize("task", SYNTHETIC)
    @pytest.mark.parametrize("unit", COMPARED)
    def test_every_unit_learns_on_the_small_twin_of_every_synthetic_task(
        self, task, unit, tmp_path
    ):
        settings = shorter(small_settings(task, unit))
        settings = replace(settings, limits=Limits(steps=60, stop_at="never"))
        run_once(tmp_path / "run", settings)
        _, losses = Record(tmp_path / "run").curve("loss")
        assert len(losses) == 60
        assert sum(losses[-10:]) < sum(losses[:10])

    # The slowest of 8 seeds took 1,469, 187 and 636 steps when this was written.
    @pytest.mark.parametrize(
        ("task", "budget", "seed"),
        [
            ("addition", 4000, 0), ("classify-length", 1000, 0), ("classify-length", 1000, 1),
            ("multicopy", 2000, 0),
        ],
    )  # fmt: skip
    def test_the_rda_reaches_the_goal_on_small_twins(self, task, budget, seed, tmp_path):
        settings = shorter(small_settings(task, "RDA-exp-tanh"))
        recipe = replace(settings.recipe, seed=seed)
        settings = replace(settings, recipe=recipe, limits=Limits(steps=budget))
        status = run_once(tmp_path / "run", settings)
        assert status.state == FINISHED
        steps, values = Record(tmp_path / "run").curve(settings.task.goal.column)
        reached = [settings.task.goal.reached(value) for value in values]
        assert reached.index(True) + 1 == status.goal_step == steps[-1]


class TestRecord:
    def test_every_step_is_in_the_metrics_and_the_status_says_how_it_ended(self, tiny, tmp_path):
        status = run_once(tmp_path / "run", with_steps(tiny, 9, stop_at="never"))
        record = Record(tmp_path / "run")
        assert record.curve("loss")[0] == list(range(1, 10))
        assert record.status == status
        assert (status.state, status.step) == (FINISHED, 9)
        assert record.settings == with_steps(tiny, 9, stop_at="never")
        (entry,) = record.environment
        assert {"rda", "torch", "python", "processor", "threads", "engine", "git"} <= entry.keys()
        assert record.timing()[0][-1] == 9

    def test_a_copy_is_told_which_commit_it_is(self, tiny, tmp_path, monkeypatch):
        monkeypatch.setenv("RDA_COMMIT", "abc123")
        run_once(tmp_path / "run", with_steps(tiny, 1))
        (entry,) = Record(tmp_path / "run").environment
        assert entry["git"] == {"commit": "abc123", "dirty": None}

    def test_a_run_without_its_goal_says_so(self, tmp_path):
        status = run_once(tmp_path / "run", with_steps(TINY_RUNS["addition"], 3))
        assert status.state == STOPPED
        assert status.reason == "3 steps without loss < 0.001"

    def test_a_time_limit_stops_and_a_later_start_goes_on(self, tmp_path):
        tiny = TINY_RUNS["addition"]
        status = run_once(tmp_path / "run", with_steps(tiny, 50, minutes=1e-9))
        assert status.state == STOPPED
        assert "minutes were over at step" in status.reason
        assert status.step < 50
        assert run_once(tmp_path / "run", with_steps(tiny, 50)).step == 50

    def test_other_settings_under_the_same_name_are_refused(self, tmp_path):
        tiny = with_steps(TINY_RUNS["addition"], 2)
        run_once(tmp_path / "run", tiny)
        other = replace(tiny, recipe=replace(TINY, hidden_size=9))
        with pytest.raises(RecordError, match=r"hidden_size 8, not 9.*--force"):
            run_once(tmp_path / "run", other)
        assert run_once(tmp_path / "run", other, force=True).step == 2
        assert Record(tmp_path / "run").settings == other

    def test_a_folder_of_someone_else_is_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("precious")
        with pytest.raises(RecordError, match=r"not a run and holds other files \(thesis.tex"):
            run_once(tmp_path, TINY_RUNS["addition"], force=True)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_two_processes_cannot_train_one_run(self, tmp_path):
        tiny = with_steps(TINY_RUNS["addition"], 2)
        with (
            Run(tmp_path / "run", tiny, Source(tiny.task, torch.device("cpu"))),
            pytest.raises(RecordError, match="in use by another process"),
        ):
            run_once(tmp_path / "run", tiny)
        assert run_once(tmp_path / "run", tiny).step == 2

    def test_changed_metrics_are_noticed(self, tmp_path):
        tiny = TINY_RUNS["addition"]
        run_once(tmp_path / "run", with_steps(tiny, 5))
        path = tmp_path / "run" / METRICS
        path.write_bytes(path.read_bytes().replace(b'"step": 3', b'"step": 4'))
        with pytest.raises(RecordError, match=r"metrics.jsonl is not as it was written; --force"):
            run_once(tmp_path / "run", with_steps(tiny, 9))


class TestResuming:
    def test_a_run_in_pieces_is_the_run_in_one_bit_by_bit(self, tiny, tmp_path):
        run_once(tmp_path / "whole", with_steps(tiny, 23, stop_at="never"))
        for steps in (1, 4, 5, 17, 23):
            run_once(tmp_path / "pieces", with_steps(tiny, steps, stop_at="never"))
        assert_same_run(tmp_path / "whole", tmp_path / "pieces")
        starts = [entry["from_step"] for entry in Record(tmp_path / "pieces").environment]
        assert starts == [0, 1, 4, 5, 17]

    def test_a_finished_run_is_left_as_it_is(self, tiny, tmp_path):
        settings = with_steps(tiny, 6, stop_at="never")
        first = run_once(tmp_path / "run", settings)
        before = (tmp_path / "run" / METRICS).read_bytes()
        assert run_once(tmp_path / "run", settings) == first
        assert (tmp_path / "run" / METRICS).read_bytes() == before

    def test_starting_a_finished_run_again_writes_nothing(self, tiny, tmp_path):
        settings = with_steps(tiny, 6, stop_at="never")
        first = run_once(tmp_path / "run", settings)
        names = [p for p in sorted((tmp_path / "run").rglob("*")) if p.is_file()]
        before = {path: path.read_bytes() for path in names}
        assert run_once(tmp_path / "run", settings) == first
        assert {path: path.read_bytes() for path in names} == before

    def test_a_start_that_is_refused_leaves_the_status_alone(self, tmp_path):
        settings = with_steps(TINY_RUNS["addition"], 6, stop_at="never")
        first = run_once(tmp_path / "run", settings)
        path = tmp_path / "run" / METRICS
        path.write_bytes(path.read_bytes()[:-1] + b" ")
        with pytest.raises(RecordError, match="not as it was written"):
            run_once(tmp_path / "run", with_steps(settings, 9))
        assert Record(tmp_path / "run").status == first

    def test_a_checkpoint_belongs_to_its_settings(self, tmp_path):
        run_once(tmp_path / "run", with_steps(TINY_RUNS["addition"], 3))
        path = tmp_path / "run" / "settings.toml"
        path.write_text(path.read_text().replace("seed = 0", "seed = 7"))
        other = replace(TINY_RUNS["addition"], recipe=replace(TINY, seed=7))
        with pytest.raises(RecordError, match="made with other settings"):
            run_once(tmp_path / "run", with_steps(other, 5))

    def test_random_numbers_of_another_device_are_refused(self, tmp_path):
        settings = with_steps(TINY_RUNS["addition"], 3)
        run_once(tmp_path / "run", settings)
        found, _ = checkpoint.load_latest(tmp_path / "run" / "checkpoints")
        values = {**found.values, "device": "cuda", "step": 4}
        checkpoint.save(
            tmp_path / "run" / "checkpoints", checkpoint.Checkpoint(4, found.tensors, values)
        )
        with pytest.raises(RecordError, match=r"begun on cuda.*use --device cuda"):
            run_once(tmp_path / "run", with_steps(settings, 5))

    def test_what_cut_off_saves_left_is_swept_away(self, tmp_path):
        settings = with_steps(TINY_RUNS["addition"], 2)
        run_once(tmp_path / "run", settings)
        for folder in (tmp_path / "run", tmp_path / "run" / "checkpoints"):
            (folder / ".status.json.123.tmp").write_text("half")
            (folder / ".step-000000002.sha256.77.tmp").write_text("half")
            (folder / ".model.safetensors.1a2b3c4d.tmp").write_text("half")
            (folder / ".mine.tmp").write_text("precious")
        run_once(tmp_path / "run", with_steps(settings, 3))
        assert [path.name for path in (tmp_path / "run").rglob("*.tmp")] == [".mine.tmp"] * 2

    def test_a_start_over_that_was_cut_off_can_be_started_over(self, tmp_path, monkeypatch):
        settings = with_steps(TINY_RUNS["addition"], 2)
        run_once(tmp_path / "run", settings)
        unlink = Path.unlink

        def dies(path, **options):
            if path.name == "metrics.jsonl":
                raise KeyboardInterrupt
            unlink(path, **options)

        monkeypatch.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            run_once(tmp_path / "run", settings, force=True)
        monkeypatch.undo()
        assert run_once(tmp_path / "run", settings, force=True).step == 2

    def test_a_corrupt_checkpoint_costs_steps_and_no_results(self, tmp_path):
        tiny = TINY_RUNS["multicopy"]
        for steps in (10, 15):
            run_once(tmp_path / "damaged", with_steps(tiny, steps, stop_at="never"))
        path = tmp_path / "damaged" / "checkpoints" / "step-000000015.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        listener = Silent()
        settings = with_steps(tiny, 20, stop_at="never")
        run_once(tmp_path / "damaged", settings, listener=listener)
        (said,) = listener.said
        assert "step-000000015.safetensors is corrupt" in said
        assert "going on from step 10" in said
        run_once(tmp_path / "whole", settings)
        assert_same_run(tmp_path / "whole", tmp_path / "damaged")

    def test_with_no_good_checkpoint_the_run_is_refused(self, tmp_path):
        tiny = TINY_RUNS["addition"]
        run_once(tmp_path / "run", with_steps(tiny, 3))
        (path,) = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
        path.write_bytes(b"")
        with pytest.raises(RecordError, match=r"no checkpoint .* can be used.*--force starts over"):
            run_once(tmp_path / "run", with_steps(tiny, 5))

    def test_goals_are_remembered_over_a_stop(self, tmp_path):
        settings = RunSettings(
            Addition(length=2), "GRU", Recipe(hidden_size=16, batch_size=4, learning_rate=0.01)
        )
        limits = {"stop_at": "trailing"}
        whole = run_once(tmp_path / "whole", with_steps(settings, 2000, **limits))
        assert whole.state == FINISHED
        assert whole.goal_step < whole.trailing_goal_step == whole.step
        middle = (whole.goal_step + whole.step) // 2
        run_once(tmp_path / "pieces", with_steps(settings, middle, **limits))
        again = run_once(tmp_path / "pieces", with_steps(settings, 2000, **limits))
        assert replace(again, seconds=0) == replace(whole, seconds=0)


class TestTraining:
    def test_a_carried_state_makes_segments_the_sequence(self):
        """The losses of truncated segments are those of one pass through them all."""
        settings = TINY_RUNS["wikipedia"]
        files = {"enwik8": bytes(i * i % 7 + 97 for i in range(2000))}
        recipe = replace(TINY, learning_rate=1e-30)
        stepper = build_stepper(replace(settings, recipe=recipe), torch.device("cpu"), files=files)
        for _ in range(5):
            stepper.step()
            (row,) = stepper.fetch()
        other = build_stepper(settings, torch.device("cpu"), files=files)
        batches = [other.source.batch(other.generator, 4) for _ in range(5)]
        inputs, targets, _ = zip(*batches, strict=True)

        def loss(input, target):
            losses = other.task.losses(other.model(input)[0], target)
            return losses[-7:].mean().item()

        assert row["loss"] == pytest.approx(loss(torch.cat(inputs), torch.cat(targets)), rel=1e-5)
        assert row["loss"] != pytest.approx(loss(inputs[-1], targets[-1]), rel=1e-3)

    def test_gradients_are_clipped_by_value(self):
        for clip in (0.0, 1e-3):
            settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, clip=clip))
            stepper = build_stepper(settings, torch.device("cpu"))
            stepper.step()
            largest = max(float(p.grad.abs().max()) for p in stepper.parameters.values())
            assert (largest == pytest.approx(1e-3)) if clip else (largest > 0.01)

    def test_the_sum_is_the_mean_times_the_answers(self):
        """And what is recorded and compared with the goal stays the mean."""
        rows, gradients = [], []
        for reduction in ("mean", "sum"):
            recipe = replace(TINY, reduction=reduction, clip=0.0)
            settings = replace(TINY_RUNS["multicopy"], recipe=recipe)
            stepper = build_stepper(settings, torch.device("cpu"))
            stepper.step()
            rows += stepper.fetch()
            gradients.append(stepper.model.readout.weight.grad)
        assert rows[0] == rows[1]
        answers = 2 * 6 * 4
        torch.testing.assert_close(gradients[1], gradients[0] * answers, rtol=1e-5, atol=1e-6)

    def test_seeds_change_weights_and_batches_and_nothing_else_does(self):
        def first_batch(seed):
            recipe = replace(TINY, seed=seed)
            return build_stepper(replace(TINY_RUNS["addition"], recipe=recipe), torch.device("cpu"))

        torch.manual_seed(1)
        one = first_batch(0)
        torch.manual_seed(2)
        same, other = first_batch(0), first_batch(1)
        for name, tensor in one.model.state_dict().items():
            assert torch.equal(tensor, same.model.state_dict()[name])
        assert not torch.equal(one.model.readout.weight, other.model.readout.weight)
        batches = [s.source.batch(s.generator, 3).input for s in (one, same, other)]
        assert torch.equal(batches[0], batches[1])
        assert not torch.equal(batches[0], batches[2])

    @pytest.mark.parametrize("unit", ["RDA-exp-tanh", "GRU"])
    def test_bfloat16_trains_too(self, unit, tmp_path):
        recipe = replace(TINY, precision="bfloat16")
        settings = RunSettings(MultiCopy(copies=2, symbols=2, alphabet=3), unit, recipe)
        status = run_once(tmp_path / "run", with_steps(settings, 5, stop_at="never"))
        assert status.state == FINISHED

    @pytest.mark.parametrize("unit", ["RDA-exp-tanh", "GRU"])
    def test_a_text_in_bfloat16_goes_on_as_if_it_had_not_stopped(self, unit, tmp_path):
        recipe = replace(TINY_RUNS["wikipedia"].recipe, precision="bfloat16")
        settings = replace(TINY_RUNS["wikipedia"], unit=unit, recipe=recipe)
        for folder, steps in (("whole", 6), ("stopped", 3), ("stopped", 6)):
            run_once(tmp_path / folder, with_steps(settings, steps, stop_at="never"))
        whole, stopped = ((tmp_path / one / METRICS).read_text() for one in ("whole", "stopped"))
        assert stopped == whole

    @pytest.mark.parametrize("supported", [True, False])
    def test_an_lstm_in_bfloat16_trains_or_says_why_not(self, tmp_path, monkeypatch, supported):
        really = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if supported and not really:
            pytest.skip("this CPU has no AVX-512")
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
        recipe = replace(TINY, precision="bfloat16")
        settings = with_steps(replace(TINY_RUNS["copy"], recipe=recipe), 2, stop_at="never")
        if supported:
            assert run_once(tmp_path / "run", settings).state == FINISHED
        else:
            with pytest.raises(DeviceError, match="AVX-512"):
                run_once(tmp_path / "run", settings)
            assert not (tmp_path / "run").exists()

    def test_the_precision_of_products_is_put_back(self, tmp_path):
        def switches():
            modules = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
            return torch.get_float32_matmul_precision(), *(m.fp32_precision for m in modules)

        before = switches()
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, precision="tf32"))
        run_once(tmp_path / "run", with_steps(settings, 2))
        assert switches() == before


class TestEvaluation:
    def test_the_best_weights_are_kept_and_tested(self, tmp_path):
        settings = with_steps(TINY_RUNS["wikipedia"], 30)
        status = run_once(tmp_path / "run", settings)
        record = Record(tmp_path / "run")
        steps, bits = record.curve("validation_bits")
        assert steps == list(range(4, 31, 4))
        assert status.best_step == steps[bits.index(min(bits))]
        assert status.best["validation_bits"] == min(bits)
        stepper = build_stepper(settings, torch.device("cpu"), files=TEXT)
        stepper.model.load_state_dict(weights(tmp_path / "run"))
        assert stepper.evaluate("test") == status.test
        assert stepper.evaluate("validation") == status.best
        assert status.test["test_bits"] == pytest.approx(
            status.test["test_loss"] / math.log(2), rel=1e-6
        )

    def test_evaluating_changes_nothing_about_training(self, tmp_path):
        plain = RunSettings(Addition(length=5), "LSTM", TINY, Limits(steps=12))
        watched = replace(plain, recipe=replace(TINY, evaluate_every=5))
        run_once(tmp_path / "plain", plain)
        run_once(tmp_path / "watched", watched)
        curves = [Record(tmp_path / name).curve("loss") for name in ("plain", "watched")]
        assert curves[0] == curves[1]

    def test_a_stop_during_an_evaluation_makes_it_again(self, tmp_path):
        tiny = TINY_RUNS["wikipedia"]
        settings = with_steps(tiny, 9)
        run_once(tmp_path / "whole", settings)
        status = run_once(tmp_path / "stopped", settings, prepare=stop_during_evaluation)
        assert status.state == INTERRUPTED
        assert status.step == 4
        assert Record(tmp_path / "stopped").curve("validation_bits")[0] == []
        run_once(tmp_path / "stopped", settings)
        assert_same_run(tmp_path / "whole", tmp_path / "stopped")

    def test_a_stop_during_the_last_evaluation_is_no_end(self, tmp_path):
        settings = with_steps(TINY_RUNS["wikipedia"], 4)
        status = run_once(tmp_path / "stopped", settings, prepare=stop_during_evaluation)
        assert (status.state, status.step) == (INTERRUPTED, 4)
        again = run_once(tmp_path / "stopped", settings)
        assert (again.state, again.best_step) == (FINISHED, 4)

    def test_a_run_that_ends_before_its_first_evaluation_is_evaluated_at_its_end(self, tmp_path):
        status = run_once(tmp_path / "run", with_steps(TINY_RUNS["wikipedia"], 3))
        assert Record(tmp_path / "run").curve("validation_bits") == (
            [3],
            [status.best["validation_bits"]],
        )
        assert status.best_step == 3
        assert status.test
        before = (tmp_path / "run" / METRICS).read_bytes()
        assert run_once(tmp_path / "run", with_steps(TINY_RUNS["wikipedia"], 3)) == status
        assert (tmp_path / "run" / METRICS).read_bytes() == before
        Record(tmp_path / "run").verify()

    def test_a_run_that_goes_on_has_only_the_evaluations_of_its_interval(self, tmp_path):
        tiny = TINY_RUNS["wikipedia"]
        for steps in (2, 3, 9):
            run_once(tmp_path / "parts", with_steps(tiny, steps))
        run_once(tmp_path / "whole", with_steps(tiny, 9))
        assert_same_run(tmp_path / "whole", tmp_path / "parts")

    def test_a_stop_during_the_only_evaluation_is_no_end(self, tmp_path):
        settings = with_steps(TINY_RUNS["wikipedia"], 3)
        status = run_once(tmp_path / "run", settings, prepare=stop_during_evaluation)
        assert (status.state, status.step, status.best_step) == (INTERRUPTED, 3, None)
        again = run_once(tmp_path / "run", settings)
        assert (again.state, again.best_step) == (FINISHED, 3)

    def test_a_model_that_was_lost_after_the_only_evaluation_is_made_again(self, tmp_path):
        settings = with_steps(TINY_RUNS["wikipedia"], 3)
        status = run_once(tmp_path / "run", settings)
        before = {name: (tmp_path / "run" / name).read_bytes() for name in (METRICS, MODEL)}
        (tmp_path / "run" / MODEL).unlink()
        assert run_once(tmp_path / "run", settings) == status
        for name, content in before.items():
            assert (tmp_path / "run" / name).read_bytes() == content


def stop_during_evaluation(stepper):
    evaluate = stepper.evaluate

    def interrupted(part, stop=lambda: False):
        if part == "validation":
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(part, stop)

    stepper.evaluate = interrupted


ENDS_AT_ONCE = with_changes(TINY_RUNS["addition"], {"not_finite": "fail"})


class TestFailing:
    def poison(self, step, name, value=float("nan")):
        """Make the gradient of a step and all later ones `value`."""

        def prepare(stepper):
            original = stepper.step
            count = iter(range(1, 10**9))

            def poisoned():
                if next(count) == step:
                    parameter = stepper.parameters[name]
                    parameter.register_hook(lambda grad: torch.full_like(grad, value))
                original()

            stepper.step = poisoned

        return prepare

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_gradient_that_is_not_finite_stops_at_its_step_and_is_named(self, tmp_path, value):
        settings = with_steps(ENDS_AT_ONCE, 20)
        run_once(tmp_path / "run", with_steps(ENDS_AT_ONCE, 5))
        prepare = self.poison(3, "unit.weight_hh_l0", value)
        status = run_once(tmp_path / "run", settings, prepare=prepare)
        assert status.state == FAILED
        assert status.reason == "gradient of unit.weight_hh_l0 is not finite at step 8"
        found, _ = checkpoint.load_latest(tmp_path / "run" / "checkpoints")
        assert found.step == 5
        # Without the poison the run goes on from there as if nothing had been.
        run_once(tmp_path / "run", settings)
        run_once(tmp_path / "whole", settings)
        assert_same_run(tmp_path / "whole", tmp_path / "run")

    def test_a_run_that_died_goes_on_where_such_steps_are_skipped(self, tmp_path):
        run_once(tmp_path / "run", with_steps(ENDS_AT_ONCE, 5))
        dies, skips = (with_steps(run, 20) for run in (ENDS_AT_ONCE, TINY_RUNS["addition"]))
        status = run_once(tmp_path / "run", dies, prepare=self.poison(3, "readout.bias"))
        assert (status.state, status.step) == (FAILED, 8)
        status = run_once(tmp_path / "run", skips, prepare=self.poison(3, "readout.bias"))
        assert (status.step, status.skipped_steps) == (20, 13)
        assert Record(tmp_path / "run").settings == skips

    def test_a_loss_that_is_not_finite_is_named(self, tmp_path):
        class Broken(Addition):
            def losses(self, prediction, target):
                return prediction.sum(-1) / 0.0

        def prepare(stepper):
            stepper.source.task = Broken(length=6)

        settings = with_steps(ENDS_AT_ONCE, 20)
        status = run_once(tmp_path / "run", settings, prepare=prepare)
        assert (status.state, status.step) == (FAILED, 1)
        assert status.reason == "loss is not finite at step 1"

    def test_a_weight_that_overflowed_is_named_and_never_saved(self, tmp_path):
        recipe = replace(TINY, learning_rate=3e38, clip=0.0)
        settings = with_steps(replace(TINY_RUNS["addition"], recipe=recipe), 50)
        status = run_once(tmp_path / "run", settings, checkpoint_seconds=0.0)
        assert status.state == FAILED
        assert "is not finite" in status.reason
        found, _ = checkpoint.load_latest(tmp_path / "run" / "checkpoints")
        if found is not None:
            for name, tensor in found.tensors.items():
                assert name.startswith("adam") or tensor.double().isfinite().all(), name

    def test_a_step_that_is_not_finite_leaves_weights_and_adam_as_they_were(self):
        stepper = build_stepper(TINY_RUNS["addition"], torch.device("cpu"))
        for _ in range(2):
            stepper.step()
            stepper.fetch()
        before = {name: tensor.clone() for name, tensor in stepper.tensors().items()}
        self.poison(1, "readout.weight")(stepper)
        for _ in range(2):
            stepper.step()
            stepper.fetch()
        for name, tensor in stepper.tensors().items():
            assert name in ("generator", "scale") or torch.equal(tensor, before[name]), name

    @pytest.mark.parametrize("failing", [1, 2, 3, 7])
    def test_a_full_disk_is_one_line_and_the_old_checkpoint_stays(
        self, tmp_path, monkeypatch, failing
    ):
        tiny = TINY_RUNS["addition"]
        run_once(tmp_path / "run", with_steps(tiny, 5))
        calls = []

        def fsync(handle):
            calls.append(handle)
            if len(calls) >= 12 + failing:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files.os, "fsync", fsync)
        status = run_once(tmp_path / "run", with_steps(tiny, 50), checkpoint_seconds=0.0)
        monkeypatch.undo()
        assert status.state == FAILED
        assert "No space left on device" in status.reason
        assert "\n" not in status.reason
        found, _ = checkpoint.load_latest(tmp_path / "run" / "checkpoints")
        assert found.step >= 5
        run_once(tmp_path / "run", with_steps(tiny, 50))
        run_once(tmp_path / "whole", with_steps(tiny, 50))
        assert_same_run(tmp_path / "whole", tmp_path / "run")

    def test_a_disk_that_takes_half_a_line_is_one_line_too(self, tmp_path):
        tiny = TINY_RUNS["addition"]
        run_once(tmp_path / "run", with_steps(tiny, 5))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
        try:
            status = run_once(tmp_path / "run", with_steps(tiny, 500))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, previous)
        assert status.state == FAILED
        assert "File too large" in status.reason
        run_once(tmp_path / "run", with_steps(tiny, 500))
        run_once(tmp_path / "whole", with_steps(tiny, 500))
        assert_same_run(tmp_path / "whole", tmp_path / "run")

    def test_a_folder_that_cannot_be_made_is_one_line(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(RecordError, match=r"cannot write .*: Not a directory"):
            run_once(tmp_path / "file" / "run", TINY_RUNS["addition"])

    def test_metrics_of_a_failed_step_are_kept(self, tmp_path):
        prepare = self.poison(3, "readout.bias")
        run_once(tmp_path / "run", with_steps(ENDS_AT_ONCE, 9), prepare=prepare)
        lines = (tmp_path / "run" / METRICS).read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_a_checkpoint_with_a_setting_that_is_not_known_here_is_refused(tmp_path, monkeypatch):
    made_elsewhere = {**identity(ENDS_AT_ONCE)}
    made_elsewhere["recipe"] = {**made_elsewhere["recipe"], "of_tomorrow": 1}
    with monkeypatch.context() as patched:
        patched.setattr("rda.training.run.identity", lambda settings: made_elsewhere)
        run_once(tmp_path / "run", with_steps(ENDS_AT_ONCE, 3))
    with pytest.raises(RecordError, match="made with other settings"):
        run_once(tmp_path / "run", with_steps(ENDS_AT_ONCE, 5))
