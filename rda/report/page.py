"""A comparison as one HTML file that asks for nothing else."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from rda import __version__
from rda.report.comparison import Comparison
from rda.report.summary import WINDOW


def render_page(comparison: Comparison, command: str = "") -> str:
    """The page as text; `command` is the one that made the runs."""
    return _template().render(
        comparison=comparison,
        task=comparison.task,
        panels=comparison.panels,
        command=command,
        window=WINDOW,
        version=__version__,
    )


def _template() -> Template:
    source = (files("rda.report") / "page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)
