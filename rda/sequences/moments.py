"""Dates and times as texts: those that are read, and those that only look like some."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from rda.sequences.dataset import Numbers

MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "?"})
"""Cells that say that there is no value, in small letters."""
EPOCH = datetime(1970, 1, 1)
QUARTER = re.compile(r"(?P<year>\d{4})[-/ ]?Q(?P<quarter>[1-4])", re.IGNORECASE)
QUARTER_FIRST = re.compile(r"Q(?P<quarter>[1-4])[-/ ]?(?P<year>\d{4})", re.IGNORECASE)
MONTH = re.compile(r"(?P<year>\d{4})[-/M](?P<month>\d{1,2})", re.IGNORECASE)
DAY = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})")
UTC = re.compile(r" ?(UTC|GMT)$")
MONTH_NAME = (
    r"(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?"
    r"|oct(ober)?|nov(ember)?|dec(ember)?)\.?"
)
WEEKDAY = r"(mon(day)?|tue(s(day)?)?|wed(nesday)?|thu(rs(day)?)?|fri(day)?|sat(urday)?|sun(day)?)"
UNREAD = re.compile(
    r"\d{1,2}[/.-]\d{1,2}[/.-](\d{4}|\d\d)(\D.*)?|\d{1,2}:\d\d(:\d\d)?(\D.*)?"
    rf"|({WEEKDAY},? +)?(\d{{4}}[ -]?)?(\d{{1,2}}[ -]?)?{MONTH_NAME}"
    rf"[ ,-]*(\d{{1,2}}(,? +|$|(?=\d\d)))?(\d{{2,4}})?( .*)?|{WEEKDAY}",
    re.IGNORECASE,
)
"""Day and month in an order that nobody tells, months as words, times without a day."""


def moments(cells: Sequence[str]) -> Numbers:
    """Dates and times of ISO 8601 as seconds since 1970; a ValueError where a cell is none."""
    return np.array([_or_missing(cell.strip()) for cell in cells], dtype=np.float64)


def _or_missing(cell: str) -> float:
    return float("nan") if cell.lower() in MISSING else _seconds(cell)


def _seconds(cell: str) -> float:
    found = datetime.fromisoformat(cell)
    # A date without a zone is taken as it stands: only differences between rows matter.
    return (found.replace(tzinfo=None) - EPOCH).total_seconds() - (
        offset.total_seconds() if (offset := found.utcoffset()) else 0.0
    )


def moments_of_words(words: Iterable[str]) -> Numbers:
    """As `moments`, also of months (1949-01), quarters (1992Q1) and days with slashes that begin
    with the year; they are the beginning of what they name."""
    return np.array([_moment_of_word(word) for word in words], dtype=np.float64)


def _moment_of_word(word: str) -> float:
    year, month, day = 0, 1, 1
    if found := MONTH.fullmatch(word):
        year, month = int(found["year"]), int(found["month"])
    elif found := QUARTER.fullmatch(word) or QUARTER_FIRST.fullmatch(word):
        year, month = int(found["year"]), 3 * int(found["quarter"]) - 2
    elif found := DAY.fullmatch(word):
        year, month, day = map(int, found.groups())
    else:
        return _seconds(UTC.sub("", word))
    return (datetime(year, month, day) - EPOCH).total_seconds()


def is_moment(word: str) -> bool:
    """Whether a text is a date or a time that is read."""
    try:
        _moment_of_word(word)
    except (ValueError, OverflowError):
        return False
    return True


def looks_like_date(word: str) -> bool:
    """Whether a text is a date, or a part of one, that is not read: nobody says whether 01/02/2020
    is in January."""
    return UNREAD.fullmatch(word.strip()) is not None
