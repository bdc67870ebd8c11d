"""A comparison as Markdown."""

from rda.report.comparison import build_comparison
from rda.report.markdown import escaped, render_markdown


def test_the_table_the_differences_and_the_headline_are_there(write_run):
    runs = [
        write_run("a", unit="RWA", small=True, step=588, goal_step=588, seconds=12.6),
        write_run("b", unit="GRU", small=True, step=900, state="failed", reason="no memory"),
    ]
    text = render_markdown(build_comparison(runs))
    lines = text.splitlines()
    assert lines[0] == "Goal: accuracy > 0.99."
    assert "| RWA | 588 | 12.6 s | 46.7 | finished |" in lines
    assert (
        "Unlike the paper: hidden_size 64, batch_size 64, reduction mean, copies 20, symbols 4, "
        "alphabet 4." in lines
    )
    assert "GRU: no memory." in lines
    assert lines[-1].startswith("RWA reached accuracy > 0.99 first, at step 588")


def test_names_cannot_become_markup_or_leave_their_cell(write_run):
    runs = [write_run(name) for name in ("a|b", "<b>bold", "[link](x)", "_it_", "`code`")]
    text = render_markdown(build_comparison(runs))
    rows = [line for line in text.splitlines() if line.startswith("| RDA")]
    assert len(rows) == 5
    for name in (r"a\|b", r"\<b>bold", r"\[link\](x)", r"\_it\_", r"\`code\`"):
        assert name in text


def test_plain_text_stays_as_it_is():
    assert escaped("hidden_size 64, loss < 0.001, RDA-exp-tanh") == (
        "hidden_size 64, loss < 0.001, RDA-exp-tanh"
    )
