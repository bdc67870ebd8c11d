"""Text and times, made fit to be shown."""

from datetime import timedelta


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
