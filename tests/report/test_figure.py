"""The picture: that it is written whole, for any run, and disturbs nothing else."""

import struct

import matplotlib
import pytest

from rda.report.curves import panels
from rda.report.figure import STYLE, curves_png, panel_svg, save_curves


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.fixture
def run(write_run):
    rows = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 300)]
    return write_run(rows=rows, step=299, goal_step=101)


def test_a_picture_is_written_whole_and_nothing_beside_it(run, tmp_path):
    path = tmp_path / "out" / "curves.png"
    path.parent.mkdir()
    save_curves(path, [run], title="Copying")
    width, height = size(path.read_bytes())
    assert width > 1200
    assert height > 500
    assert list(path.parent.iterdir()) == [path]


def test_odd_runs_have_a_picture(odd_runs):
    assert size(curves_png(odd_runs))
    assert size(curves_png(odd_runs[1:2]))


def test_any_name_can_stand_in_the_legend(write_run):
    names = ["$x_{", "_hidden", "\\frac", "绘图 🎉", "a\nb", "%s{}"]
    assert size(curves_png([write_run(name) for name in names], title="".join(names)))


def test_the_same_runs_give_the_same_picture(run):
    assert curves_png([run]) == curves_png([run])
    (loss, _) = panels([run])
    assert panel_svg(loss) == panel_svg(loss)


def test_the_users_own_matplotlib_is_left_alone(run):
    def settings():
        return {key: matplotlib.rcParams[key] for key in STYLE}

    plain = curves_png([run])
    with matplotlib.rc_context({"text.color": "red", "axes.facecolor": "red", "font.size": 30}):
        before = settings()
        assert curves_png([run]) == plain
        assert settings() == before


def test_a_picture_in_a_page_takes_the_colour_of_its_text(run):
    (loss, _) = panels([run])
    svg = panel_svg(loss)
    assert svg.startswith("<svg")
    assert "currentColor" in svg
    assert "<metadata>" not in svg
