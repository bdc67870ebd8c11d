"""Text and times, made fit to be shown."""

from collections.abc import Sequence
from datetime import timedelta

PICTURES = str.maketrans(
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
    | {0x7F: "\N{SYMBOL FOR DELETE}"}
    | dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}")
)
"""What stands for each control character; those above 0x7F have no pictures of their own."""


def visible(text: str) -> str:
    """The text with a picture in place of each control character but line ends and tabs."""
    return text.translate(PICTURES)


def printable(text: str) -> str:
    """One line that a terminal shows and does not obey."""
    line = " ".join(text.split())
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds: 0:03:49."""
    return str(timedelta(seconds=round(seconds)))


def counted(number: int, what: str) -> str:
    """A number of things: 1 run, 1,234 runs."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
