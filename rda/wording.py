"""Text from elsewhere, made fit to be shown."""


def printable(text: str) -> str:
    """One line that a terminal shows and does not obey."""
    line = " ".join(text.split())
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
