"""Sequences of training are known again by what they hold."""

from dataclasses import replace

import numpy as np
from made_data import waves

from rda.sequences.dataset import from_arrays
from rda.sequences.seen import (
    LETTERS,
    digests_of,
    digests_of_stretches,
    seen_sequences,
    seen_steps,
)


def test_a_sequence_is_known_by_its_values_alone():
    sequences = waves(20)
    digests = digests_of(sequences.chosen(np.arange(12)))
    assert len(digests) == 12 * LETTERS
    turned = sequences.chosen(np.arange(20)[::-1])
    renamed = replace(turned, ids=tuple("x" * 20), target=None)
    assert seen_sequences(renamed, digests).tolist() == list(range(8, 20))
    values = sequences.values.copy()
    values[0, 0] += 1e-9
    assert 0 not in seen_sequences(replace(sequences, values=values), digests)


def test_all_nan_and_both_zeros_are_alike():
    one = from_arrays([np.array([np.nan, 0.0, 1.0])])
    other = from_arrays([np.array([-np.float64("nan"), -0.0, 1.0])])
    assert digests_of(one) == digests_of(other)


def test_steps_are_known_in_a_piece_of_a_series_and_in_a_longer_one():
    series = np.random.default_rng(0).normal(size=100)
    digests = digests_of_stretches(from_arrays([series]))
    assert [len(each) for each in digests] == [6 * LETTERS, LETTERS]
    longer = from_arrays([np.concatenate([series, np.arange(30.0)]), np.arange(40.0)])
    assert seen_steps(longer, *digests) == [(100, 100), (0, 0)]
    # Training may have gone on behind what is recognised, for less than a stretch.
    (piece,) = seen_steps(from_arrays([np.concatenate([series[10:70], np.arange(30.0)])]), *digests)
    assert piece == (48, 69)


def test_nights_of_zeros_are_not_taken_for_those_of_training():
    nights = np.concatenate([np.zeros(40), np.arange(20.0), np.zeros(40)])
    digests = digests_of_stretches(from_arrays([nights]))
    assert seen_steps(from_arrays([np.zeros(50)]), *digests) == [(0, 0)]
    assert digests_of_stretches(from_arrays([np.arange(10.0)])) == ("", "")
