"""The picture: that it is written whole, for any run, and disturbs nothing else."""

import struct

import matplotlib
import pytest

from rda.report.comparison import build_comparison
from rda.report.figure import STYLE, draw_panels, render_png


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def curves_png(records):
    return render_png(build_comparison(records))


@pytest.fixture
def run(write_run):
    rows = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 300)]
    return write_run(rows=rows, step=299, goal_step=101)


def test_a_picture_has_room_for_both_panels(run):
    width, height = size(curves_png([run]))
    assert width > 1200
    assert height > 500


def test_odd_runs_have_a_picture(odd_runs):
    assert size(curves_png(odd_runs))
    assert size(curves_png(odd_runs[1:2]))


def test_any_name_can_stand_in_the_legend(write_run):
    names = ["$x_{", "_hidden", "\\frac", "绘图 🎉", "a\nb", "%s{}"]
    comparison = build_comparison([write_run(name) for name in names])
    titled = [("".join(names), panel) for panel in comparison.panels]
    assert size(draw_panels(titled, "".join(names)))


def test_the_same_runs_give_the_same_picture(run):
    assert curves_png([run]) == curves_png([run])


def test_the_users_own_matplotlib_is_left_alone(run):
    def settings():
        return {key: matplotlib.rcParams[key] for key in STYLE}

    plain = curves_png([run])
    with matplotlib.rc_context({"text.color": "red", "axes.facecolor": "red", "font.size": 30}):
        before = settings()
        assert curves_png([run]) == plain
        assert settings() == before
