"""MNIST and Wikipedia from files of the same form, small enough to make here."""

import math

import pytest
import torch

from rda.tasks.mnist import MNIST, PermutedMNIST
from rda.tasks.wikipedia import Wikipedia

CPU = torch.device("cpu")


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, 28, 28), generator=generator, dtype=torch.uint8)
    digits = torch.randint(10, (count,), generator=generator, dtype=torch.uint8)
    return pixels, digits


@pytest.fixture
def mnist_files():
    files = {}
    for part, count in (("train", 60), ("t10k", 20)):
        pixels, digits = images(count, count)
        files[f"{part}-images-idx3-ubyte"] = bytes(16) + pixels.numpy().tobytes()
        files[f"{part}-labels-idx1-ubyte"] = bytes(8) + digits.numpy().tobytes()
    return files


class TestMNIST:
    def test_pixels_come_one_a_step_in_reading_order_between_0_and_1(self, mnist_files):
        task = MNIST(images=60).open(CPU, mnist_files)
        (batch,) = task.evaluation("test", 100)
        pixels, digits = images(20, 20)
        assert batch.input.shape == (784, 20, 1)
        assert torch.equal(batch.input[..., 0].t(), pixels.flatten(1).float() / 255)
        assert torch.equal(batch.target, digits.long())

    def test_eleven_twelfths_train_and_the_rest_validates(self, mnist_files):
        task = MNIST(images=60).open(CPU, mnist_files)
        sizes = {part: len(digits) for part, (_, digits) in task.parts.items()}
        assert sizes == {"train": 55, "validation": 5, "test": 20}

    def test_every_training_image_comes_once_an_epoch_in_a_new_order(self, mnist_files):
        task = MNIST(images=60).open(CPU, mnist_files)
        generator = torch.Generator().manual_seed(0)
        epochs = [
            torch.cat([task.batch(generator, 11).input for _ in range(5)], 1) for _ in range(2)
        ]
        trained = torch.sort(task.parts["train"][0].sum(1)).values
        for epoch in epochs:
            seen = torch.sort((epoch[..., 0] * 255).round().sum(0)).values
            assert torch.equal(seen.long(), trained)
        assert not torch.equal(*epochs)

    def test_a_position_gives_the_same_batches_again(self, mnist_files):
        task = MNIST(images=60).open(CPU, mnist_files)
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            task.batch(generator, 10)
        position, state = task.position(), generator.get_state()
        expected = [task.batch(generator, 10) for _ in range(9)]
        other = MNIST(images=60).open(CPU, mnist_files)
        other.move_to(position)
        generator.set_state(state)
        for batch in expected:
            again = other.batch(generator, 10)
            assert torch.equal(again.input, batch.input)
            assert torch.equal(again.target, batch.target)

    def test_one_fixed_permutation_from_its_seed(self, mnist_files):
        plain, permuted, same, other = (
            next(iter(settings.open(CPU, mnist_files).evaluation("test", 20))).input
            for settings in (
                MNIST(images=60),
                PermutedMNIST(images=60),
                PermutedMNIST(images=60),
                PermutedMNIST(images=60, permutation_seed=3),
            )
        )
        order = torch.randperm(784, generator=torch.Generator().manual_seed(1705))
        assert torch.equal(permuted, plain[order])
        assert torch.equal(permuted, same)
        assert not torch.equal(permuted, other)

    def test_pooling_averages_squares(self, mnist_files):
        task = MNIST(images=60, pool=14).open(CPU, mnist_files)
        (batch,) = task.evaluation("test", 100)
        pixels, _ = images(20, 20)
        assert batch.input.shape == (4, 20, 1)
        expected = pixels[:, :14, 14:].float().mean((1, 2)) / 255
        # A pooled pixel is rounded to a whole number of 255.
        assert (batch.input[1, :, 0] - expected).abs().max() <= 0.5 / 255 + 1e-6


TEXT = bytes(b"the quick brown fox jumps over the lazy dog. "[i % 45] for i in range(4000))


class TestWikipedia:
    settings = Wikipedia(characters=2000, segment=30, evaluation_streams=4)

    def task(self, settings=settings):
        return settings.open(CPU, {"enwik8": TEXT})

    def test_the_parts_are_ninety_five_and_five_percent_in_order(self):
        task = self.task()
        text = torch.cat(list(task.parts.values()))
        alphabet = bytes(sorted(set(TEXT[:2000])))
        assert [len(part) for part in task.parts.values()] == [1800, 100, 100]
        assert bytes(alphabet[i] for i in text.tolist()) == TEXT[:2000]
        assert task.input_size == task.output_size == len(alphabet)

    def test_the_target_is_the_next_character_and_segments_follow_each_other(self):
        task = self.task()
        first, second = (task.batch(torch.Generator(), 6) for _ in range(2))
        assert first.input.shape == (30, 6)
        assert torch.equal(first.input[1:], first.target[:-1])
        assert torch.equal(second.input[0], first.target[-1])

    def test_streams_begin_anew_when_they_end(self):
        task = self.task()
        length = (1800 - 1) // 6
        seen = []
        for _ in range(length // 30):
            assert task.start_of_stream() == (not seen)
            seen.append(task.batch(torch.Generator(), 6))
        for _ in seen:  # every second pass begins later, and comes to the ends of the streams
            task.batch(torch.Generator(), 6)
        assert task.start_of_stream()
        assert torch.equal(task.batch(torch.Generator(), 6).input, seen[0].input)

    def test_evaluation_predicts_every_character_but_the_first_few(self):
        task = self.task()
        batches = list(task.evaluation("test", 99))
        text = task.parts["test"]
        said = torch.cat([batch.target for batch in batches]).t().flatten()
        assert torch.equal(said, text[1 : len(said) + 1].long())
        assert len(text) - 1 - len(said) < 4

    def test_chance_is_the_entropy_of_single_characters_in_bits(self):
        settings = Wikipedia(characters=1000, evaluation_streams=2)
        task = settings.open(CPU, {"enwik8": b"ab" * 500})
        assert task.chance == pytest.approx(1.0)
        loss = torch.tensor(math.log(2.0))
        assert settings.score(torch.zeros(1, 2), torch.zeros(1), loss).item() == pytest.approx(1.0)

    def test_a_position_goes_on_with_the_same_segment(self):
        task, other = self.task(), self.task()
        for _ in range(4):
            task.batch(torch.Generator(), 6)
        other.move_to(task.position())
        assert torch.equal(
            task.batch(torch.Generator(), 6).input, other.batch(torch.Generator(), 6).input
        )

    def test_too_many_streams_for_the_text_are_refused(self):
        with pytest.raises(ValueError, match="too short for 5000 streams"):
            self.task().batch(torch.Generator(), 5000)
