"""Schedules, clipping by norm, and steps that are skipped."""

import math
from dataclasses import replace

import pytest
import torch
from test_loop import assert_same_run
from tiny_runs import TEXT, TINY, TINY_RUNS, run_once, with_steps

from rda.settings import Goal, Limits, Recipe
from rda.training.building import build_stepper
from rda.training.loop import MOST_SKIPPED
from rda.training.record import Record
from rda.training.status import FAILED, FINISHED

CPU = torch.device("cpu")


def rates(recipe, steps):
    return [recipe.learning_rate_at(step) for step in steps]


class TestSchedule:
    def test_constant_is_the_same_at_every_step(self):
        assert rates(Recipe(learning_rate=0.5), (1, 2, 10**6)) == [0.5] * 3

    def test_the_warm_up_rises_and_ends_at_the_full_rate(self):
        recipe = Recipe(learning_rate=1.0, warmup_steps=4)
        assert rates(recipe, range(1, 7)) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])

    def test_linear_goes_straight_to_its_end_and_stays_there(self):
        recipe = Recipe(
            learning_rate=1.0, schedule="linear", schedule_steps=5, final_learning_rate=0.2
        )
        assert rates(recipe, (1, 3, 5, 6, 99)) == pytest.approx([1.0, 0.6, 0.2, 0.2, 0.2])

    def test_cosine_is_half_way_down_at_half_time_after_the_warm_up(self):
        recipe = Recipe(learning_rate=1.0, schedule="cosine", warmup_steps=10, schedule_steps=111)
        assert recipe.learning_rate_at(11) == 1.0
        assert recipe.learning_rate_at(61) == pytest.approx(0.5)
        assert recipe.learning_rate_at(36) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
        assert recipe.learning_rate_at(111) == pytest.approx(0.0)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"schedule": "cosine"}, "schedule_steps should be more than warmup_steps"),
            ({"schedule": "linear", "schedule_steps": 5, "warmup_steps": 5}, "warmup_steps, 5"),
            ({"schedule_steps": 5}, "schedule_steps needs schedule"),
            ({"final_learning_rate": 0.1}, "final_learning_rate needs schedule"),
            (
                {"schedule": "linear", "schedule_steps": 5, "final_learning_rate": 1.0},
                "final_learning_rate should be learning_rate",
            ),
            ({"warmup_steps": -1}, "warmup_steps should be 0 or more"),
            ({"clip_norm": -1.0}, "clip_norm should be 0 or more"),
            ({"clip_relative": 0.5}, "clip_relative should be 0 or above 1"),
            ({"adam_epsilon": -1e-8}, "adam_epsilon should be 0 or more"),
            ({"adam_beta1": 1.0}, "adam_beta1 should be 0 or more and below 1"),
            ({"adam_beta2": -0.1}, "adam_beta2 should be 0 or more and below 1"),
            ({"weight_decay": -1.0}, "weight_decay should be 0 or more"),
            ({"dropout": 1.0}, "dropout should be 0 or more and below 1"),
            ({"weight_dropout": -0.1}, "weight_dropout should be 0 or more and below 1"),
            ({"restart_probability": 1.0}, "restart_probability should be 0 or more and below 1"),
            ({"gru_gate_bias": math.inf}, "gru_gate_bias should be finite"),
        ],
    )
    def test_a_value_that_makes_no_sense_is_named(self, options, said):
        with pytest.raises(ValueError, match=said):
            Recipe(**options)

    def test_adam_takes_the_rate_of_each_step(self):
        recipe = replace(TINY, learning_rate=0.1, schedule="linear", schedule_steps=3)
        stepper = build_stepper(replace(TINY_RUNS["addition"], recipe=recipe), CPU)
        for step in range(1, 5):
            before = stepper.model.readout.bias.clone()
            stepper.step()
            stepper.fetch()
            rate = recipe.learning_rate_at(step)
            moved = (stepper.model.readout.bias - before).abs().item()
            # Adam's step is the rate times something between 0 and about 1.
            assert moved <= 1.5 * rate
            assert (moved == 0) == (rate == 0)

    def test_a_run_in_pieces_is_the_run_in_one(self, tmp_path):
        recipe = replace(TINY, warmup_steps=3, schedule="cosine", schedule_steps=15)
        settings = replace(TINY_RUNS["multicopy"], recipe=recipe)
        run_once(tmp_path / "whole", with_steps(settings, 20, stop_at="never"))
        for steps in (2, 9, 20):
            run_once(tmp_path / "pieces", with_steps(settings, steps, stop_at="never"))
        curves = [Record(tmp_path / name).curve("loss") for name in ("whole", "pieces")]
        assert curves[0] == curves[1]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"precision": "fp16"}, "precision should be one of float32"),
        ({"schedule": "linaer"}, "schedule should be one of constant"),
        ({"hidden_size": 64.0}, "hidden_size should be of type int, got 64.0"),
        ({"hidden_size": "64"}, "hidden_size should be of type int"),
        ({"learn_initial_state": 1}, "learn_initial_state should be of type bool"),
        ({"clip": 10**400}, "clip should be of type float"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_when_it_is_given(values, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Recipe(**values)


def test_a_whole_number_may_stand_for_a_float():
    assert Recipe(clip=2) == Recipe(clip=2.0)
    assert isinstance(Recipe(clip=2).clip, float)
    for values in ({"steps": 2e3}, {"stop_at": "x"}):
        with pytest.raises((TypeError, ValueError), match=next(iter(values))):
            Limits(**values)


def test_a_relation_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="relation should be"):
        Goal("loss", "<=", 0.1)


def test_gradients_are_clipped_by_norm_together():
    for limit in (0.0, 1e-3):
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, clip=0.0, clip_norm=limit))
        stepper = build_stepper(settings, CPU)
        stepper.step()
        gradients = [p.grad.flatten() for p in stepper.parameters.values()]
        norm = torch.cat(gradients).norm().item()
        assert (norm == pytest.approx(1e-3, rel=1e-3)) if limit else (norm > 0.01)


class TestRelativeClipping:
    def stepper(self, **changes):
        recipe = replace(TINY, clip=0.0, clip_relative=2.0, **changes)
        return build_stepper(replace(TINY_RUNS["addition"], recipe=recipe), CPU)

    def norm_after_step(self, stepper, factor=1.0):
        """The norm that Adam sees where each gradient was made larger by a factor."""
        hooks = [p.register_hook(lambda grad: grad * factor) for p in stepper.parameters.values()]
        stepper.step()
        stepper.fetch()
        for hook in hooks:
            hook.remove()
        return torch.cat([p.grad.flatten() for p in stepper.parameters.values()]).norm().item()

    def test_a_sudden_gradient_is_scaled_to_what_was_usual_and_a_usual_one_is_not(self):
        stepper = self.stepper(learning_rate=1e-9)
        usual = [self.norm_after_step(stepper) for _ in range(3)]
        assert stepper.clipping.usual_norm.item() == pytest.approx(usual[0], rel=0.05)
        limit = 2 * stepper.clipping.usual_norm.item()
        assert self.norm_after_step(stepper, 1e6) == pytest.approx(limit, rel=1e-4)
        assert self.norm_after_step(stepper) < limit

    def test_a_gradient_that_is_zero_or_not_finite_leaves_the_mean_alone(self):
        stepper = self.stepper(not_finite="skip")
        assert self.norm_after_step(stepper, 0.0) == 0.0
        first = self.norm_after_step(stepper)
        self.norm_after_step(stepper, math.inf)
        assert stepper.clipping.usual_norm.item() == pytest.approx(first, rel=1e-6)

    def test_a_resumed_run_knows_what_was_usual(self, tmp_path):
        settings = with_steps(
            replace(TINY_RUNS["addition"], recipe=replace(TINY, clip_relative=1.01)), 8
        )
        run_once(tmp_path / "whole", settings)
        run_once(tmp_path / "parts", with_steps(settings, 5))
        run_once(tmp_path / "parts", settings)
        assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RWA", "LSTM", "GRU"])
def test_a_learned_initial_state_starts_where_the_recipe_says(unit):
    recipe = replace(TINY, hidden_size=64, learn_initial_state=True, initial_state_deviation=2.0)
    settings = replace(TINY_RUNS["addition"], unit=unit, recipe=recipe)
    model = build_stepper(settings, CPU).model
    starts = [start for name, start in model.unit.named_parameters() if "initial_" in name]
    assert len(starts) == (2 if unit == "LSTM" else 1)
    for start in starts:
        assert 1.0 < start.std() < 3.0
    with pytest.raises(ValueError, match="needs learn_initial_state"):
        Recipe(initial_state_deviation=1.0)


def test_epsilon_and_betas_are_adams():
    recipe = replace(TINY, adam_epsilon=1e-3, adam_beta1=0.8, adam_beta2=0.95)
    settings = replace(TINY_RUNS["addition"], recipe=recipe)
    found = build_stepper(settings, CPU).optimiser.defaults
    assert (found["eps"], found["betas"]) == (1e-3, (0.8, 0.95))


def test_matrices_decay_and_biases_do_not():
    """With a gradient of zero Adam moves nothing, so that all that is left is the decay."""
    recipe = replace(TINY, weight_decay=0.5, learning_rate=0.1)
    recipe = replace(recipe, learn_initial_state=True, initial_state_deviation=1.0)
    stepper = build_stepper(replace(TINY_RUNS["addition"], recipe=recipe), CPU)
    before = {name: tensor.clone() for name, tensor in stepper.model.state_dict().items()}
    for parameter in stepper.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    stepper.optimiser.step()
    for name, tensor in stepper.model.state_dict().items():
        share = 1 - 0.5 * 0.1 if "weight" in name else 1
        torch.testing.assert_close(tensor, share * before[name])
    assert before["unit.bias_l0"].any()
    assert before["unit.initial_average"].any()


class TestDropout:
    def stepper(self, name, **changes):
        recipe = replace(TINY, hidden_size=400, **changes)
        return build_stepper(replace(TINY_RUNS[name], recipe=recipe), CPU, files=TEXT)

    @pytest.mark.parametrize("name", ["addition", "wikipedia"])
    def test_a_step_hides_a_share_of_what_the_readout_sees(self, name):
        stepper = self.stepper(name, dropout=0.25)
        seen = []
        stepper.model.readout.register_forward_pre_hook(lambda module, given: seen.append(*given))
        for _ in range(2):
            stepper.step()
            stepper.fetch()
        stepper.evaluate("validation")
        zeros = [(each == 0).float().mean().item() for each in seen]
        # Four standard deviations of the share of at least 4 x 400 values.
        assert zeros[:2] == pytest.approx([0.25] * 2, abs=4 * (0.25 * 0.75 / 1600) ** 0.5)
        assert not torch.equal(seen[0] == 0, seen[1] == 0)
        assert zeros[2:] == [0.0] * len(zeros[2:])

    def test_what_is_kept_is_larger_by_what_is_hidden(self):
        stepper = self.stepper("addition", dropout=0.5, weight_dropout=0.2)
        batch = stepper.source.batch(stepper.generator, 4)
        noise = stepper._noise(batch)
        ones = torch.ones(4, 400)
        assert set(noise.on_outputs(ones).unique().tolist()) == {0.0, 2.0}
        assert set(noise.on_weights(torch.ones(1200, 400)).unique().tolist()) == {0.0, 1.25}

    @pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RWA", "LSTM", "GRU"])
    def test_weights_that_are_left_out_of_a_step_get_no_gradient(self, unit):
        recipe = replace(TINY, weight_dropout=0.3)
        stepper = build_stepper(replace(TINY_RUNS["addition"], unit=unit, recipe=recipe), CPU)
        kept = stepper._noise(stepper.source.batch(stepper.generator, 4)).weights
        stepper.step()
        assert torch.equal(stepper.model.recurrent_weights.grad != 0, kept)

    def test_another_seed_hides_others(self):
        drawn = [self.stepper("addition", dropout=0.5, seed=seed) for seed in (0, 0, 1)]
        one, same, other = (
            stepper._noise(stepper.source.batch(stepper.generator, 4)).outputs for stepper in drawn
        )
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


class TestRestarts:
    def stepper(self, probability, unit="RDA-exp-tanh"):
        recipe = replace(TINY, batch_size=50, restart_probability=probability)
        settings = replace(TINY_RUNS["wikipedia"], unit=unit, recipe=recipe)
        return build_stepper(settings, CPU, files=TEXT)

    @pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RWA", "LSTM", "GRU"])
    def test_a_row_that_starts_anew_predicts_as_without_a_past(self, unit):
        stepper = self.stepper(0.4, unit)
        batch = stepper.source.batch(stepper.generator, 50)
        _, _, _, past = stepper._forward(batch, None)
        batch = stepper.source.batch(stepper.generator, 50)
        noise = stepper._noise(batch)
        _, some, _, _ = stepper._forward(batch, past, noise=noise)
        _, carried, _, _ = stepper._forward(batch, past)
        _, anew, _, _ = stepper._forward(batch, None)
        assert 0 < noise.pasts.sum() < 50
        assert torch.equal(some[:, noise.pasts], carried[:, noise.pasts])
        assert torch.equal(some[:, ~noise.pasts], anew[:, ~noise.pasts])
        assert not torch.equal(carried[:, ~noise.pasts], anew[:, ~noise.pasts])

    def test_rows_start_anew_as_often_as_the_recipe_says(self):
        stepper = self.stepper(0.1)
        batch = stepper.source.batch(stepper.generator, 50)
        kept = []
        for step in range(200):
            stepper.steps_done = step
            kept.append(stepper._noise(batch).pasts.float().mean())
        # Four standard deviations of a share of 10,000 draws.
        assert torch.stack(kept).mean() == pytest.approx(0.9, abs=4 * (0.09 / 10_000) ** 0.5)

    def test_an_evaluation_starts_no_row_anew(self):
        found = [self.stepper(probability).evaluate("validation") for probability in (0.0, 0.9)]
        assert found[0] == found[1]

    def test_sequences_that_carry_no_state_have_nothing_to_start_anew(self):
        with pytest.raises(ValueError, match="restart_probability does not go with addition"):
            replace(TINY_RUNS["addition"], recipe=replace(TINY, restart_probability=0.1))


def test_the_gates_of_a_gru_start_where_the_recipe_says():
    recipe = replace(TINY, gru_gate_bias=1.0)
    with pytest.raises(ValueError, match="gru_gate_bias goes with the unit GRU"):
        replace(TINY_RUNS["addition"], unit="LSTM", recipe=recipe)
    settings = replace(TINY_RUNS["addition"], unit="GRU", recipe=recipe)
    unit = build_stepper(settings, CPU).model.unit
    size = recipe.hidden_size
    assert unit.bias_ih_l0.tolist() == [1.0] * 2 * size + [0.0] * size
    assert not unit.bias_hh_l0.any()


class TestSkipping:
    def poison(self, *steps):
        """Make a gradient NaN at these steps of the process."""

        def prepare(stepper):
            original, count = stepper.step, iter(range(1, 10**9))

            def poisoned():
                hook = None
                if next(count) in steps:
                    weight = stepper.model.readout.weight
                    hook = weight.register_hook(lambda grad: torch.full_like(grad, torch.nan))
                original()
                if hook is not None:
                    hook.remove()

            stepper.step = poisoned

        return prepare

    @pytest.mark.parametrize("name", ["addition", "wikipedia"])
    def test_a_skipped_step_changes_no_weight_and_the_run_goes_on(self, name):
        recipe = replace(TINY_RUNS[name].recipe, not_finite="skip")
        settings = replace(TINY_RUNS[name], recipe=recipe)
        stepper = build_stepper(settings, CPU, files=TEXT)
        self.poison(3)(stepper)
        weights = []
        for _ in range(4):
            stepper.step()
            (row,) = stepper.fetch()
            weights.append(stepper.model.readout.weight.clone())
            carried = () if stepper.state is None else stepper.state
            assert all(part.isfinite().all() for part in carried)
        assert torch.equal(weights[1], weights[2])
        assert not torch.equal(weights[2], weights[3])
        assert row.culprit is None

    def test_skipped_steps_are_counted_in_the_record_over_a_stop(self, tmp_path):
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, not_finite="skip"))
        first = with_steps(settings, 5, stop_at="never")
        status = run_once(tmp_path / "run", first, prepare=self.poison(2, 4))
        assert (status.state, status.skipped_steps) == (FINISHED, 2)
        more = with_steps(settings, 9, stop_at="never")
        status = run_once(tmp_path / "run", more, prepare=self.poison(1))
        assert status.skipped_steps == 3
        assert Record(tmp_path / "run").curve("skipped")[0] == [2, 4, 6]

    @pytest.mark.parametrize("clipping", [{"clip": 1.0}, {"clip": 0.0, "clip_norm": 1.0}])
    def test_gradients_that_outgrow_float32_are_clipped_like_others(self, clipping):
        """Each element is 1e45 times what it was: the first step is skipped, the others are not."""
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, **clipping))
        stepper = build_stepper(settings, CPU)
        for parameter in stepper.parameters.values():
            parameter.register_hook(lambda gradient: gradient * 1e25 * 1e20)
        skipped, norms = [], []
        for _ in range(40):
            stepper.step()
            (row,) = stepper.fetch()
            skipped.append(row.culprit is not None)
            gradients = torch.cat([p.grad.flatten() for p in stepper.parameters.values()])
            norms.append(gradients.norm().item())
            if not skipped[-1] and clipping["clip"]:
                assert gradients.abs().max() == 1.0
            elif not skipped[-1]:
                assert norms[-1] == pytest.approx(1.0, rel=1e-4)
        assert skipped[0]
        assert 1 <= sum(skipped) <= 4
        assert stepper.not_finite_weight() is None

    def test_the_scale_of_the_loss_changes_no_digit(self):
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, clip_norm=0.1))
        one, other = build_stepper(settings, CPU), build_stepper(settings, CPU)
        other.clipping.scale.fill_(2.0**-20)
        for _ in range(5):
            for stepper in (one, other):
                stepper.step()
                stepper.fetch()
        assert other.clipping.scale == 2.0**-15
        for ours, theirs in zip(one.parameters.values(), other.parameters.values(), strict=True):
            assert torch.equal(ours, theirs)

    def test_a_run_that_stops_after_a_skipped_step_goes_on_at_its_scale(self, tmp_path):
        settings = with_steps(TINY_RUNS["addition"], 8, stop_at="never")
        run_once(tmp_path / "whole", settings, prepare=self.poison(4))
        run_once(tmp_path / "parts", with_steps(settings, 5), prepare=self.poison(4))
        run_once(tmp_path / "parts", settings)
        assert_same_run(tmp_path / "whole", tmp_path / "parts")

    def test_too_many_in_a_row_fail(self, tmp_path):
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, not_finite="skip"))
        steps = range(5, 500)
        status = run_once(tmp_path / "run", with_steps(settings, 500), prepare=self.poison(*steps))
        assert (status.state, status.step) == (FAILED, 4 + MOST_SKIPPED)
        assert f"skipped 100 times in {status.step} steps" in status.reason

    def test_every_other_step_ends_the_run_too(self, tmp_path):
        """A run of text went on like this for 20,000 steps, at a loss of 14 bits."""
        settings = replace(TINY_RUNS["addition"], recipe=replace(TINY, not_finite="skip"))
        steps = range(300, 900, 2)
        status = run_once(tmp_path / "run", with_steps(settings, 900), prepare=self.poison(*steps))
        assert (status.state, status.step) == (FAILED, 300 + 2 * (MOST_SKIPPED - 1))
        assert "skipped 100 times in 200 steps" in status.reason
