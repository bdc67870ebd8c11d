"""The page of a comparison of forecasts, one step ahead as it is by default."""

import re

import numpy as np
import pytest

from rda.cli import main
from rda.report import choice
from rda.sequences.forecasting import Backtest


@pytest.mark.parametrize(("horizon", "steps"), [(1, 5), (3, 7), (3, 6)])
def test_every_forecast_is_seen_in_the_picture(monkeypatch, horizon, steps):
    """Also the forecast of a single step, of which no line can be drawn."""
    monkeypatch.setattr(choice, "_as_image", lambda figure: figure)
    said = np.arange(steps) + 0.5
    made = list(range(0, steps, horizon))
    true, predicted, low, high = (
        row.tolist() for row in (np.zeros(steps), said, said - 1, said + 2)
    )
    one = Backtest("x", [0.0, 1.0], true, predicted, low, high, made, 1.0)
    (axes,) = choice.forecast_picture([one]).axes
    came, *forecasts = axes.lines[:-1]
    assert came.get_xdata().tolist() == [-1, 0, *range(1, steps + 1)]
    assert len(forecasts) == len(axes.collections) == len(made)
    for begin, line, band in zip(made, forecasts, axes.collections, strict=True):
        end = min(begin + horizon, steps)
        place = line.get_xdata()
        assert place[0] < place[-1]
        assert set(line.get_ydata()) == set(said[begin:end])
        assert np.mean(place) == pytest.approx((begin + 1 + end) / 2)
        assert np.ptp(band.get_paths()[0].vertices, axis=0).min() > 0


def test_the_page_speaks_of_steps_and_stretches_of_time(tmp_path):
    level = np.random.default_rng(0).normal(size=150).cumsum()
    rows = [f"{t},{value!r}" for t, value in enumerate(level.tolist())]
    (tmp_path / "one.csv").write_text("\n".join(["t,level", *rows]))
    line = ["compare", "--data", str(tmp_path / "one.csv"), "GRU", "--sizes", "", "--steps", "2"]
    line += ["--hidden-size", "4", "--rates", "0.01", "--seeds", "1", "--threads", "1"]
    assert main([*line, "--runs-dir", str(tmp_path), "--name", "page"]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "draws of other stretches of time and seeds" in page
    assert "draws of other test sequences" not in page
    assert "Blue: forecasts of the next step, each made" in page
    assert "those above the axis are at its upper edge" in page
    assert "t orders the steps; --time names another column" in page
    assert re.search(r'<div class="wide">\s*<table class="comparison">', page)
