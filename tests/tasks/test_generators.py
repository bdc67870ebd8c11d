"""Each task is the task of the paper: shapes, markers, recalls, targets, chance, balance."""

import pytest
import torch

from rda.tasks import Task, all_tasks
from rda.tasks.addition import Addition
from rda.tasks.alternating import Alternating
from rda.tasks.classify_length import ClassifyLength
from rda.tasks.copying import Copy, MultiCopy
from rda.training.settings import full_settings, small_settings

SYNTHETIC = [name for name, task in all_tasks().items() if task.batch is not Task.batch]


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(6)


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("size", [full_settings, small_settings])
def test_a_seed_gives_the_same_batches_on_the_cpu(name, size):
    first, second, other = (
        size(name, "RWA").task.batch(torch.Generator().manual_seed(seed), 5) for seed in (3, 3, 4)
    )
    assert torch.equal(first.input, second.input)
    assert torch.equal(first.target, second.target)
    assert not torch.equal(first.input, other.input)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_batches_touch_no_generator_but_the_one_passed(name):
    before = torch.get_rng_state()
    small_settings(name, "RWA").task.batch(torch.Generator(), 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_evaluation_is_the_same_every_time_and_differs_between_the_parts(name):
    source = small_settings(name, "RWA").task.open(torch.device("cpu"))
    first, again, test = (
        [batch.input for batch in source.evaluation(part, 40)]
        for part in ("validation", "validation", "test")
    )
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, test))


class TestAddition:
    def test_values_are_uniform_and_two_distinct_markers_fall_anywhere(self, generator):
        batch = Addition(length=7).batch(generator, 20_000)
        values, markers = batch.input.unbind(-1)
        assert batch.input.shape == (7, 20_000, 2)
        assert values.min() >= 0
        assert values.max() < 1
        # 140,000 draws: the mean of a uniform number is within 5 of its deviations, 0.0008.
        assert values.mean().item() == pytest.approx(0.5, abs=0.004)
        assert set(markers.unique().tolist()) == {0.0, 1.0}
        assert torch.equal(markers.sum(0), torch.full((20_000,), 2.0))
        # Every step is marked in 2 of 7 sequences; 5 deviations of that share are 0.016.
        assert (markers.mean(1) - 2 / 7).abs().max() < 0.016

    def test_every_pair_of_positions_is_equally_likely(self, generator):
        batch = Addition(length=4).batch(generator, 12_000)
        marked = batch.input[..., 1].t().nonzero()[:, 1].view(-1, 2)
        pairs, counts = marked.unique(dim=0, return_counts=True)
        assert len(pairs) == 6
        # Binomial(12000, 1/6): 2000 with a deviation of 41.
        assert (counts - 2000).abs().max() < 5 * 41

    def test_the_target_is_the_sum_of_the_marked_values(self, generator):
        batch = Addition().batch(generator, 50)
        values, markers = batch.input.unbind(-1)
        assert torch.equal(batch.target, (values.double() * markers).sum(0).float())

    def test_always_saying_one_gives_the_chance_level(self, generator):
        task = Addition(length=5)
        batch = task.batch(generator, 200_000)
        loss = task.losses(torch.ones(200_000, 1), batch.target).mean()
        assert loss.item() == pytest.approx(task.chance, abs=0.002)
        assert task.score(torch.ones(1, 1), batch.target, loss) == loss

    def test_the_shortest_sequence_marks_both_steps(self, generator):
        batch = Addition(length=2).batch(generator, 10)
        assert batch.input[..., 1].eq(1).all()


class TestClassifyLength:
    def test_lengths_are_uniform_from_one_to_the_longest(self, generator):
        batch = ClassifyLength(longest=10).batch(generator, 50_000)
        lengths, counts = batch.lengths.unique(return_counts=True)
        assert lengths.tolist() == list(range(1, 11))
        # Binomial(50000, 0.1): 5000 with a deviation of 67.
        assert (counts - 5000).abs().max() < 5 * 67

    def test_at_the_papers_size_the_classes_are_balanced(self, generator):
        task = ClassifyLength()
        batch = task.batch(generator, 20_000)
        assert batch.input.shape == (1000, 20_000, 1)
        assert torch.equal(batch.target, (batch.lengths > 500).float())
        assert task.chance == 0.5
        # 5 deviations of a share of 20,000 coins.
        assert batch.target.mean().item() == pytest.approx(0.5, abs=0.018)

    def test_features_are_uniform_up_to_the_end_and_zero_after_it(self, generator):
        batch = ClassifyLength(longest=50).batch(generator, 300)
        for row, length in enumerate(batch.lengths.tolist()):
            assert batch.input[:length, row].gt(0).all()
            assert batch.input[length:, row].eq(0).all()

    def test_an_odd_longest_has_its_own_chance_level(self, generator):
        task = ClassifyLength(longest=5)
        batch = task.batch(generator, 100_000)
        always = torch.ones(100_000, 1)
        found = task.score(always, batch.target, torch.tensor(0.0)).item()
        assert task.chance == 3 / 5
        assert found == pytest.approx(task.chance, abs=0.008)


class TestCopy:
    def test_the_papers_size_is_1020_steps_of_nine_symbols_and_eight_classes(self, generator):
        task = Copy()
        batch = task.batch(generator, 100)
        assert batch.input.shape == batch.target.shape == (1020, 100)
        assert (task.input_size, task.output_size) == (9, 8)
        assert task.chance == pytest.approx(0.990, abs=0.0005)

    def test_the_recall_falls_anywhere_that_leaves_room_for_the_answer(self, generator):
        task = Copy(symbols=3, delay=4)
        batch = task.batch(generator, 20_000)
        recalls = batch.input.t().eq(task.recall).nonzero()
        assert len(recalls) == 20_000
        steps, counts = recalls[:, 1].unique(return_counts=True)
        assert steps.tolist() == [3, 4, 5, 6]
        # Binomial(20000, 1/4): 5000 with a deviation of 61.
        assert (counts - 5000).abs().max() < 5 * 61

    def test_the_answer_follows_the_recall_and_all_else_is_blank(self, generator):
        task = Copy(symbols=4, alphabet=5, delay=9)
        batch = task.batch(generator, 200)
        for input, target in zip(batch.input.t(), batch.target.t(), strict=True):
            (recall,) = input.eq(task.recall).nonzero().flatten().tolist()
            expected = torch.full_like(target, task.blank)
            expected[recall + 1 : recall + 5] = input[:4]
            assert torch.equal(target, expected)
            assert input[:4].lt(5).all()
            after = torch.cat((input[4:recall], input[recall + 1 :]))
            assert after.eq(task.blank).all()

    def test_always_blank_scores_the_chance_level(self, generator):
        assert _blank_score(Copy(), generator) == pytest.approx(0.990196, abs=1e-6)

    def test_every_symbol_occurs_equally_often(self, generator):
        batch = Copy(symbols=5, delay=1).batch(generator, 14_000)
        counts = batch.input[:5].flatten().bincount(minlength=7)
        # Binomial(70000, 1/7): 10000 with a deviation of 93.
        assert (counts[:7] - 10_000).abs().max() < 5 * 93


class TestMultiCopy:
    def test_the_papers_size_is_fifty_copies_of_twenty_steps(self, generator):
        task = MultiCopy()
        batch = task.batch(generator, 100)
        assert batch.input.shape == batch.target.shape == (1000, 100)
        assert (task.input_size, task.output_size) == (9, 8)
        assert task.chance == pytest.approx(0.55)

    def test_each_copy_is_symbols_blank_recall_blanks_and_the_answer(self, generator):
        task = MultiCopy(copies=6, symbols=9)
        batch = task.batch(generator, 30)
        for input, target in zip(batch.input.t(), batch.target.t(), strict=True):
            for shown, said in zip(input.split(20), target.split(20), strict=True):
                assert shown[:9].lt(7).all()
                assert shown[9:].tolist() == [7, 8, *[7] * 9]
                assert said[:11].eq(7).all()
                assert torch.equal(said[11:], shown[:9])

    def test_copies_differ_from_each_other(self, generator):
        batch = MultiCopy().batch(generator, 1)
        assert len(batch.input[:, 0].view(50, 20).unique(dim=0)) > 45

    def test_always_blank_scores_the_chance_level(self, generator):
        assert _blank_score(MultiCopy(), generator) == pytest.approx(0.55)


def _blank_score(task, generator):
    target = task.batch(generator, 10).target
    prediction = torch.zeros(*target.shape, task.output_size)
    prediction[..., task.blank] = 1.0
    return task.score(prediction, target, torch.tensor(0.0)).item()


@pytest.mark.parametrize("task", [Copy(counted="answers"), MultiCopy(counted="answers")])
def test_answers_can_be_counted_alone(generator, task):
    _, target, _ = task.batch(generator, 20)
    guess = torch.zeros_like(target)
    scores = [
        task.score(torch.nn.functional.one_hot(said, task.output_size), target, torch.tensor(0.0))
        for said in (target, target.where(target != 0, 1), guess)
    ]
    share = ((target == 0).sum() / (target != task.blank).sum()).item()
    assert scores == pytest.approx([1.0, 1 - share, share])
    assert share == pytest.approx(task.chance, abs=0.05)


def test_settings_out_of_range_are_named():
    for settings, field in (
        (Addition, "length"),
        (ClassifyLength, "longest"),
        (Copy, "delay"),
        (MultiCopy, "copies"),
    ):
        with pytest.raises(ValueError, match=f"{field} should be . or more, got 0"):
            settings(**{field: 0})


class TestAlternating:
    def test_the_first_input_says_which_answer_comes_first_and_they_take_turns(self, generator):
        batch = Alternating(length=6).batch(generator, 200)
        first = batch.input[0, :, 0]
        assert set(first.tolist()) == {-1.0, 1.0}
        assert not batch.input[1:].any()
        assert torch.equal(batch.target[0], (first > 0).long())
        assert torch.equal(batch.target[1:], 1 - batch.target[:-1])
