"""What the values of a table tell of columns that nobody named: dates, running numbers, labels."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rda.sequences.columns import Column, Table
from rda.sequences.dataset import Counts, Numbers, SequencesError
from rda.sequences.found import Found
from rda.sequences.moments import looks_like_date
from rda.sequences.roles import COUNTING_NAMES, TARGET_NAMES, Roles

UNNAMED = frozenset(
    {"column 1", "unnamed: 0", "__index_level_0__", "rownames", "row.names", "...1"}
)
"""What the first column is called where it had no name, as frames write their index."""
FEWEST = 5
"""Rows from which counting is no accident."""
YEARS = (1500, 2100)
LARGEST_PART = 2100
"""Of a date: a year."""
EVEN = 0.1
"""Share by which the steps of numbers that run on evenly may differ: months have 28 to 31 days."""
SECONDS = (1990 - 1970) * 365.25 * 86400, (2060 - 1970) * 365.25 * 86400
NAMES_INPUTS = "--features names the inputs"


def recognised(table: Table, given: Roles) -> Table:
    """The table with roles for the columns that nobody named, where their values tell them.

    Args:
        table: read with the roles that names of columns tell.
        given: the roles that somebody named.

    Raises:
        SequencesError: no column is left as an input.
    """
    return _Look(table, given).outcome()


def told_of_sequence(roles: Roles, given: Roles, files: int) -> list[str]:
    """A line on the column that names the sequences, or on files that are sequences, unless
    somebody named a column."""
    if given.sequence:
        return []
    if not roles.sequence:
        return ["each file is a sequence; --sequence names a column"] if files > 1 else []
    return [f"{roles.sequence} names the sequences; --sequence names another column"]


def told_of_time(roles: Roles, given: Roles, found_how: str = "") -> list[str]:
    """A line on the column that orders the steps, unless somebody named it."""
    if not roles.time or given.time:
        return []
    return [f"{roles.time} {found_how}orders the steps; --time names another column"]


class _Look:
    """At columns without a role, in their order."""

    def __init__(self, table: Table, given: Roles) -> None:
        self.table, self.given, self.roles = table, given, table.roles
        self.rows = _Steps(table.files)
        self.found = Found(forecast=self._named_as_target())
        self.notes: list[str] = []
        self.left_out: list[str] = []
        if forecast := self.found.forecast or self._recorded_as_target():
            self.notes.append(f"{forecast} is forecast; --target names other columns")
        named = {*given.features, *(given.forecast or ()), self.found.forecast}
        free = {*self.roles.features, *self.roles.looked_at} - named
        self.free = [name for name in table.header if name in free and name in table.columns]
        unnamed = not table.headless and table.header[0].lower() in UNNAMED
        self.index = table.header[0] if unnamed else ""
        self.first = table.header[1] if unnamed and len(table.header) > 1 else table.header[0]
        self.dates = {
            name: seconds
            for name in [*self.free, self.roles.time]
            if name and (seconds := table.columns[name].as_moments()) is not None
        }

    def outcome(self) -> Table:
        """All of it."""
        self._leave_row_names()
        self._find_sequence()
        self.notes += told_of_sequence(self.roles, self.given, len(self.table.names))
        self.code = self._code()
        self.steps = _Steps(self.code)
        found_how = "" if self.roles.time else self._find_time()
        self.notes += told_of_time(self.roles, self.given, found_how)
        for name in list(self.free):
            if what := self._looks_like(name):
                self._leave_out(name, what)
        self._find_forecast()
        features = tuple(name for name in self.roles.features if name not in self.left_out)
        if not features:
            seen = "; ".join([*self._of_target(), *self.notes]) or "every one has another role"
            option = f"; {NAMES_INPUTS}" if self.notes and NAMES_INPUTS not in seen else ""
            raise SequencesError(f"no column is left as an input: {seen}{option}")
        roles = replace(self.roles, features=features, looked_at=())
        found = replace(
            self.found,
            sequence="" if self.given.sequence else roles.sequence,
            time="" if self.given.time else roles.time,
            left_out=tuple(self.left_out),
        )
        columns = {name: self.table.columns[name] for name in roles.columns}
        notes = (*self.table.notes, *self.notes)
        return replace(self.table, columns=columns, roles=roles, notes=notes, found=found)

    def _leave_out(self, name: str, what: str) -> None:
        self.free.remove(name)
        if name in self.roles.features:
            self.left_out.append(name)
            self.notes.append(f"{name} {what} and is left out; {NAMES_INPUTS}")

    def _leave_row_names(self) -> None:
        """A sequence by its name that is another in each row, of which nothing could be forecast,
        where a time orders the rows."""
        name, has_time = self.roles.sequence, bool(self.roles.time or self.dates)
        if not name or self.given.sequence or self.roles.target or not has_time:
            return
        values = self.table.columns[name].values
        if len(values) < FEWEST or len(np.unique(values)) < len(values):
            return
        self.left_out.append(name)
        self.roles = replace(self.roles, sequence="")
        self.notes.append(
            f"{name} is another in each row and is left out; --sequence names a column"
        )

    def _code(self) -> Counts:
        """The sequence of each row, by number."""
        if not self.roles.sequence:
            return self.table.files
        names = self.table.columns[self.roles.sequence].values
        return np.unique(names, return_inverse=True)[1].astype(np.int64)

    def _find_sequence(self) -> None:
        """The first column that is neither a date nor counts the rows, if it holds labels that
        tell the steps of one time apart."""
        if self.roles.sequence or len(self.table.names) > 1:
            return
        name = next((name for name in self.free if not self._is_of_rows(name)), "")
        if not name or name in self.left_out:
            return
        labels = self.table.columns[name]
        if _tell_apart(labels, self._times(name)):
            self.free.remove(name)
            self.roles = replace(self._without(name), sequence=name)

    def _is_of_rows(self, name: str) -> bool:
        column = self.table.columns[name]
        if name in (*self.dates, self.index) or name.lower() in COUNTING_NAMES:
            return True
        if column.words:
            return _are_unread_dates(column)
        return self.rows.count(column.values) or self._has_years(name, self.rows)

    def _times(self, besides: str) -> list[Numbers]:
        """What may order the steps of sequences."""
        found = [self.dates[name] for name in self.dates]
        if self.roles.time and self.roles.time not in self.dates:
            found.append(self.table.columns[self.roles.time].values)
        for name in self.free:
            column = self.table.columns[name]
            if name not in (besides, *self.dates) and not column.words:
                counting = name.lower() in COUNTING_NAMES or _counts_again(column.values)
                found += [column.values] if counting else []
        return [time for time in found if np.isfinite(time).all()]

    def _find_time(self) -> str:
        """The column that orders the steps becomes their time; what its values look like."""
        different = {
            name: _pairs(self.code, seconds)
            for name, seconds in self.dates.items()
            if name in self.free and np.isfinite(seconds).all()
        }
        rows, sequences = len(self.table.files), len(np.unique(self.code))
        dates = [
            name
            for name, count in different.items()
            if 2 * count > rows
            or (count > sequences and self.steps.rise(self.dates[name], strictly=False))
        ]
        counting = [
            name
            for name in self.free
            if name not in (self.index, *self.dates) and self._orders(name)
        ]
        for name in [*sorted(dates, key=lambda one: -different[one]), *counting][:1]:
            self.free.remove(name)
            self.roles = replace(self._without(name), time=name)
            return "holds dates and " if name in dates else "counts up and "
        return ""

    def _without(self, name: str) -> Roles:
        features = tuple(one for one in self.roles.features if one != name)
        return replace(self.roles, features=features)

    def _orders(self, name: str) -> bool:
        """Whether numbers rise from step to step and look as if they counted or dated them."""
        column = self.table.columns[name]
        values = column.values
        if column.words or not self.steps.rise(values):
            return False
        if name.lower() in COUNTING_NAMES or self.steps.count(values) or self._runs_on(name):
            return True
        return self.steps.enough and (_are_compact_dates(values) or self._has_years(name))

    def _runs_on(self, name: str) -> bool:
        """Whether the first column runs up or down evenly, whole numbers or not."""
        return name == self.first and self.steps.run_on(self.table.columns[name].values)

    def _has_years(self, name: str, steps: "_Steps | None" = None) -> bool:
        """Whether the first column holds years that do not go back."""
        values, steps = self.table.columns[name].values, steps or self.steps
        if name != self.first or not steps.enough or not _are_whole(values):
            return False
        return _within(values, YEARS) and steps.rise(values, strictly=False)

    def _looks_like(self, name: str) -> str:
        """What a column looks like that is neither measured nor a category; empty for others."""
        column = self.table.columns[name]
        values = column.values
        if name in self.dates:
            missing = "" if np.isfinite(values).all() else ", some of them missing,"
            return f"holds dates{missing}"
        if _are_unread_dates(column):
            if not any(map(str.isdigit, "".join(column.words))):
                return "is a part of a date"
            return (
                f"holds dates such as {column.words[0]!r}, which are read if written as 2020-01-31,"
            )
        if name == self.index and np.isfinite(values).any():
            return "looks like the index of a frame"
        if column.words:
            is_part = name.lower() in COUNTING_NAMES
            label = "looks like a label" if name == self.first else ""
            return "is a part of a date" if is_part else label
        if self._runs_on(name):
            return "is a running number"
        if not _are_whole(values):
            return ""
        if self._orders(name) or self.rows.count(values):
            return "is a running number"
        if name.lower() in COUNTING_NAMES and _within(values, (0, LARGEST_PART)):
            return "is a part of a date"
        if self._has_years(name):
            return "holds years"
        if name == self.first and self.dates and _stand_together(values):
            return "looks like a label"
        return "counts up again and again" if _counts_again(values) else ""

    def _named_as_target(self) -> str:
        """The column of numbers that is to be forecast because of its name, where a forecast is
        asked for and no name."""
        if self.given.forecast != ():
            return ""
        low = {name.lower(): name for name in self.roles.features}
        named = next((low[name] for name in TARGET_NAMES if name in low), "")
        return "" if named and self.table.columns[named].words else named

    def _of_target(self) -> list[str]:
        name = self.roles.target
        words = self.table.columns[name].words if name else ()
        return [f"{name} is the target and holds words such as {words[0]!r}"] if words else []

    def _recorded_as_target(self) -> str:
        """A column of such a name that a run has written down as the one to be forecast."""
        wanted = self.given.forecast or ()
        return wanted[0] if len(wanted) == 1 and wanted[0].lower() in TARGET_NAMES else ""

    def _find_forecast(self) -> None:
        """A target that only its own past can tell."""
        target = self.roles.target
        if not target or {*self.roles.features} - {*self.left_out}:
            return
        column = self.table.columns[target]
        known = np.isfinite(column.values)
        code = self.code[known]
        if column.words or _pairs(code, column.values[known]) <= len(np.unique(code)):
            return  # the same at all steps of a sequence
        self.roles = replace(self.roles, target="", features=(target,))
        self.found = replace(self.found, forecast=target)
        self.notes.append(f"no other column is left as an input: {target} is forecast")


class _Steps:
    """From each row to the next one of its sequence."""

    def __init__(self, code: Counts) -> None:
        self.order = np.argsort(code, kind="stable")
        self.within = np.diff(code[self.order]) == 0
        self.enough = bool(np.count_nonzero(self.within) >= FEWEST - 1)

    def rise(self, values: Numbers, strictly: bool = True) -> bool:
        """Whether each step of a sequence has a larger number than the one before, or one that is
        not smaller."""
        if not self.within.any() or not np.isfinite(values).all():
            return False
        least = self._of(values).min()
        return bool(least > 0 or (not strictly and least == 0))

    def count(self, values: Numbers) -> bool:
        """Whether each step of a sequence has the whole number that comes next."""
        return self.enough and _are_whole(values) and bool(np.all(self._of(values) == 1))

    def run_on(self, values: Numbers) -> bool:
        """Whether all steps go up, or all down, and most of them by about the same."""
        if not self.enough or not (self.rise(values) or self.rise(-values)):
            return False
        steps = np.abs(self._of(values))
        usual = np.median(steps)
        return bool(np.mean(np.abs(steps - usual) <= EVEN * usual) > 0.5)

    def _of(self, values: Numbers) -> Numbers:
        found: Numbers = np.diff(values[self.order])[self.within]
        return found


def _tell_apart(labels: Column, times: Sequence[Numbers]) -> bool:
    """Whether labels name the sequences of rows: no time occurs twice with one of them, and many
    times occur with several; or words, or numbers that count them, stand in one stretch each."""
    values = labels.values
    if not np.isfinite(values).all() or not (labels.words or _are_whole(values)):
        return False
    rows, count = len(values), len(np.unique(values))
    if count == rows or (2 * count > rows and not labels.words):
        return False
    apart = [time for time in times if _pairs(values, time) == rows]
    if count > 1 and any(4 * len(np.unique(time)) <= 3 * rows for time in apart):
        return True
    changes = np.flatnonzero(np.diff(values))
    if len(changes) + 1 != count or not (apart or not times):
        return False
    return bool(labels.words) or _count_stretches(values, changes)


def _stand_together(values: Numbers) -> bool:
    """Whether the rows of each of several whole numbers stand together, and count them."""
    changes = np.flatnonzero(np.diff(values))
    return len(np.unique(values)) == len(changes) + 1 and _count_stretches(values, changes)


def _count_stretches(values: Numbers, changes: Counts) -> bool:
    """Whether each of several stretches of two rows or more has the whole number that comes
    next."""
    lengths = np.diff(np.concatenate(([-1], changes, [len(values) - 1])))
    return len(lengths) > 1 and bool(lengths.min() > 1 and np.all(np.diff(values)[changes] == 1))


def _pairs(some: Numbers | Counts, others: Numbers) -> int:
    """How many different pairs there are of two columns."""
    if not len(some):
        return 0
    order = np.lexsort((others, some))
    a, b = some[order], others[order]
    return 1 + int(np.count_nonzero((np.diff(a) != 0) | (b[1:] != b[:-1])))


def _are_whole(values: Numbers) -> bool:
    return bool(np.isfinite(values).all() and np.all(values % 1 == 0))


def _within(values: Numbers, limits: tuple[float, float]) -> bool:
    return bool(values.min() >= limits[0] and values.max() <= limits[1])


def _counts_again(values: Numbers) -> bool:
    """Whether whole numbers count up from the same first one again and again, to three at least."""
    if len(values) < FEWEST or not _are_whole(values) or np.ptp(values) < 3:
        return False
    return bool(np.all((np.diff(values) == 1) | (values[1:] == values[0])))


def _are_compact_dates(values: Numbers) -> bool:
    """Whether whole numbers that rise are days (20200131), months (202001) or seconds since 1970,
    or thousandths, millionths and so on of them."""
    if not _are_whole(values):
        return False
    if any(_within(values, (SECONDS[0] * unit, SECONDS[1] * unit)) for unit in (1, 1e3, 1e6, 1e9)):
        return True
    days = values.max() > 10 * YEARS[1] * 100
    months = values // 100 if days else values
    day = values % 100 if days else np.ones(1)
    in_year = _within(months % 100, (1, 12)) and _within(day, (1, 31))
    return in_year and _within(months // 100, YEARS)


def _are_unread_dates(column: Column) -> bool:
    return bool(column.words) and all(map(looks_like_date, column.words))
