"""How facts read: numbers, durations, lists, and text that comes from a record."""

from typing import Any

from rda.wording import printable

MISSING = "\N{EN DASH}"


def count(value: int | None) -> str:
    """1500 as "1,500"."""
    return MISSING if value is None else f"{value:,}"


def number(value: float | None) -> str:
    """Four significant digits."""
    return MISSING if value is None else f"{value:.4g}"


def rate(value: float | None) -> str:
    """A number per second: three digits, or whole from 100 on."""
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Seconds in the two largest units that matter."""
    if seconds is None:
        return MISSING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min"


def shown(value: Any) -> str:
    """A setting or an entry of the environment as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return MISSING if value is None else printable(str(value))
