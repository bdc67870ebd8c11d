"""The engine `cuda` with clusters of 16 rows, as processes use it that share a GPU."""

import pytest
from comparing import PAIRS, RDA, TOLERANCE, a_thousand_agree, baseline_error, error

from rda.scan.cuda.onchip import SHARED


@pytest.fixture(autouse=True)
def shared_gpu(monkeypatch):
    monkeypatch.setenv(SHARED, "1")


@pytest.mark.parametrize("units", [129, 160, 250, 256])
@pytest.mark.parametrize("batch", [9, 16, 17, 100, 300])
def test_every_number_of_rows(units, batch, product):
    assert error("cuda", 12, batch, units, RDA, product) < TOLERANCE[product]


@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_rows_in_both_directions(choices, reverse, product):
    lengths = [20, 3, 0, 11, 20, 1, 19, 7, 20, 2, 20, 20, 5, 6, 13, 20, 18]
    assert error("cuda", 20, 17, 137, choices, product, lengths, reverse) < TOLERANCE[product]


@pytest.mark.parametrize("time", [1, 2, 3, 73, 2000])
def test_short_and_long_sequences(time, product):
    assert error("cuda", time, 19, 140, RDA, product) < TOLERANCE[product]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("batch", [9, 16, 100])
def test_lstm_and_gru(name, batch, product):
    assert baseline_error(name, product, 7, batch, 250) < TOLERANCE[product]


def test_a_thousand_launches_are_identical(product):
    assert a_thousand_agree("cuda", 20, 250, product)
