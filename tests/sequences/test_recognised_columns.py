"""Nothing that looks like a date, a running number or a label in front is forecast or fed in unless
somebody named it; what was seen and which option decides is told in a line."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from recognised_files import AIRLINE, EPOCH, MONTHS, QUARTERS, TIMES, table, write

from rda.sequences import Roles, SequencesError, read
from rda.sequences.moments import is_moment, looks_like_date
from rda.tasks import TaskError
from rda.tasks.own_sequences import OwnSequences

LABELS = ["one", "two", "three"]
ORDERS = "{} holds dates and orders the steps; --time names another column"
COUNTS = "{} counts up and orders the steps; --time names another column"
NAMED = "{} orders the steps; --time names another column"
LEFT = "{} and is left out; --features names the inputs"
N = len(AIRLINE)
SMOOTH = np.sin(np.arange(N) / 5).round(3).tolist()

ONE_SERIES = {
    "dates": (table(ds=TIMES, x=AIRLINE), ORDERS.format("ds")),
    "dates with a zone": (
        table(datetime_gmt=[f"{t} 00:00:00+00:00" for t in TIMES], x=AIRLINE),
        ORDERS.format("datetime_gmt"),
    ),
    "dates of UTC": (table(at=[f"{t} UTC" for t in TIMES], x=AIRLINE), ORDERS.format("at")),
    "dates with a Z": (table(at=[f"{t}T00:00:00Z" for t in TIMES], x=AIRLINE), ORDERS.format("at")),
    "months": (table(Month=MONTHS, x=AIRLINE), ORDERS.format("Month")),
    "quarters": (table(Quarter=QUARTERS, x=AIRLINE), ORDERS.format("Quarter")),
    "dates of which some are equal": (
        table(ds=sorted(TIMES[:72] * 2), x=AIRLINE), ORDERS.format("ds")
    ),
    "dates in the last column": (table(x=AIRLINE, ds=TIMES), ORDERS.format("ds")),
    "an index of dates": (table(**{"": TIMES}, x=AIRLINE), ORDERS.format("column 1")),
    "days": (table(day=range(1, N + 1), x=AIRLINE), COUNTS.format("day")),
    "rows": (table(row=range(N), x=AIRLINE), COUNTS.format("row")),
    "numbers with gaps": (table(nr=range(3, 3 + 2 * N, 2), x=AIRLINE), COUNTS.format("nr")),
    "a count of any name": (table(Beobachtung=range(7, 7 + N), x=AIRLINE),
                            COUNTS.format("Beobachtung")),
    "decimal years in front": (
        table(at=[round(1958 + (1 + i) / 12, 4) for i in range(N)], x=AIRLINE), COUNTS.format("at")
    ),
    "days of a spreadsheet in front": (
        table(at=[43831 + i / 24 for i in range(N)], x=AIRLINE), COUNTS.format("at")
    ),
    "every second number in front": (
        table(lfd=range(5, 5 + 2 * N, 2), x=AIRLINE), COUNTS.format("lfd")
    ),
    "a count with a gap in front": (
        table(lfd=[i + 5 * (i > 40) for i in range(N)], x=AIRLINE), COUNTS.format("lfd")
    ),
    "a count down in front": (
        table(lfd=range(N, 0, -1), x=AIRLINE), LEFT.format("lfd is a running number")
    ),
    "years in front": (table(Jahr=[1501 + 4 * i for i in range(N)], x=AIRLINE),
                       COUNTS.format("Jahr")),
    "seconds since 1970": (table(stamp=[EPOCH + 600 * i for i in range(N)], x=AIRLINE),
                           COUNTS.format("stamp")),
    "thousandths of them": (table(x=AIRLINE, stamp=[1000 * EPOCH + 7 * i for i in range(N)]),
                            COUNTS.format("stamp")),
    "compact dates": (table(stamp=[t.replace("-", "") for t in TIMES], x=AIRLINE),
                      COUNTS.format("stamp")),
    "compact months": (table(stamp=[t.replace("-", "") for t in MONTHS], x=AIRLINE),
                       COUNTS.format("stamp")),
    "an index without a name": (
        table(**{"": range(N)}, x=AIRLINE),
        LEFT.format("column 1 looks like the index of a frame"),
    ),
    "the index of a frame that was read again": (
        table(**{"Unnamed: 0": range(N)}, x=AIRLINE),
        LEFT.format("Unnamed: 0 looks like the index of a frame"),
    ),
    "a count beside a date": (table(date=TIMES, no=range(N), x=AIRLINE),
                              LEFT.format("no is a running number")),
    "dates beside a time": (table(t=range(N), born=TIMES, x=AIRLINE),
                            LEFT.format("born holds dates")),
    "dates that are missing": (
        table(born=["", *TIMES[1:]], x=AIRLINE),
        LEFT.format("born holds dates, some of them missing,"),
    ),
    "hours of days": (table(t=range(N), hour=[i % 24 for i in range(N)], x=AIRLINE),
                      LEFT.format("hour is a part of a date")),
    "a count again and again": (table(Stunde=[i % 24 for i in range(N)], x=AIRLINE),
                                LEFT.format("Stunde counts up again and again")),
    "names of months": (
        table(month=["Jan", "Feb", "Mar"] * 48, x=AIRLINE),
        LEFT.format("month is a part of a date"),
    ),
    "names of days": (
        table(date=TIMES, weekday=["Friday", "Saturday", "Sunday"] * 48, x=AIRLINE),
        LEFT.format("weekday is a part of a date"),
    ),
    "dates in a column of such a name": (table(Date=TIMES, x=AIRLINE), NAMED.format("Date")),
    "years in a column of such a name": (
        table(x=AIRLINE, YEAR=[1501 + 4 * i for i in range(N)]), NAMED.format("YEAR")
    ),
    "days and months in an order that nobody tells": (
        table(when=[f"{1 + i % 12:02}/{1 + i // 12:02}/2020" for i in range(N)], x=AIRLINE),
        LEFT.format(
            "when holds dates such as '01/01/2020', which are read if written as 2020-01-31,"
        ),
    ),
    "dates as texts": (
        table(when=[f"{1 + i % 28} Jan {1900 + i // 28}" for i in range(N)], x=AIRLINE),
        LEFT.format(
            "when holds dates such as '1 Jan 1900', which are read if written as 2020-01-31,"
        ),
    ),
    "labels in front": (table(colour=(LABELS * N)[:N], x=AIRLINE),
                        LEFT.format("colour looks like a label")),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_SERIES)
def test_what_is_no_measurement_is_left_out_and_that_is_told(tmp_path, name):
    content, note = ONE_SERIES[name]
    task = OwnSequences(data=write(tmp_path, content))
    assert [channel.name for channel in task.read().channels] == ["x"]
    np.testing.assert_array_equal(task.read().values[:, 0], AIRLINE)
    assert note in task.told()
    assert "to be learned: a forecast of the next values of x" in task.told()


def test_numbers_in_front_are_labels_where_dates_do_not_tell_the_rows_apart(tmp_path):
    shops, dates = [1 + i // 48 for i in range(N)], TIMES[:24] * 6
    task = OwnSequences(data=write(tmp_path, table(Store=shops, Date=dates, x=AIRLINE)))
    assert [channel.name for channel in task.read().channels] == ["x"]
    assert LEFT.format("Store looks like a label") in task.told()


def test_what_was_named_is_read_whatever_it_looks_like(tmp_path):
    path = write(tmp_path, table(day=range(N), when=TIMES, x=AIRLINE))
    features = [one.name for one in OwnSequences(data=path, features="day,when,x").read().channels]
    assert features == ["day", "when", "x"]
    forecast = OwnSequences(data=path, problem="forecast", target="day")
    assert [one.name for one in forecast.read().channels] == ["day", "x"]
    assert "a forecast of the next values of day" in "\n".join(forecast.told())


MEASURED = {
    "whole numbers": [3, 1, 4, 1, 5, 9, 2, 6] * 18,
    "a sum that grows": np.cumsum([2, 0, 1, 3] * 36).tolist(),
    "bits": [0, 1, 1, 0, 1, 0] * 24,
    "one value": [5] * N,
    "rising measurements": [100.5 + i for i in range(N)],
    "words": (LABELS * N)[:N],
    "numbers as large as years": [1900, 1950, 1920] * 48,
    "ratios": [f"{i}/7" for i in range(N)],
}


@pytest.mark.parametrize("name", MEASURED)
def test_measurements_and_categories_stay_inputs(tmp_path, name):
    task = OwnSequences(data=write(tmp_path, table(x=SMOOTH, other=MEASURED[name])))
    assert [channel.name for channel in task.read().channels] == ["x", "other"]
    assert not task.read().notes


def test_rows_are_put_in_the_order_of_dates_that_were_recognised(tmp_path):
    turned = write(tmp_path, table(quarter=QUARTERS[::-1], x=AIRLINE[::-1]))
    found = read(turned)
    np.testing.assert_array_equal(found.values[:, 0], AIRLINE)
    assert "steps were sorted by quarter" in found.notes


def test_a_first_row_of_data_is_no_header_and_a_counted_header_is_none_of_data(tmp_path):
    years = write(tmp_path, ",0\n" + "".join(f"{1700 + i},{x}\n" for i, x in enumerate(AIRLINE)))
    found = read(years)
    assert [channel.name for channel in found.channels] == ["0"]
    np.testing.assert_array_equal(found.values[:, 0], AIRLINE)
    wide = read(write(tmp_path, ",1990,1991\n" + "a,1.5,2\nb,2,3\nc,3,5\n"))
    assert (len(wide.values), [channel.name for channel in wide.channels]) == (3, ["1990", "1991"])
    dates = write(tmp_path, "".join(f"{t},{x}\n" for t, x in zip(TIMES, AIRLINE, strict=True)))
    found = read(dates)
    np.testing.assert_array_equal(found.values[:, 0], AIRLINE)
    assert ORDERS.format("column 1") in found.notes


def panel(interleaved=False, sequences=("A", "B", "C"), times=TIMES):
    steps = list(zip(times, AIRLINE, strict=True))
    rows = [(name, t, x + 10 * i) for i, name in enumerate(sequences) for t, x in steps]
    rows = sorted(rows, key=lambda row: row[1]) if interleaved else rows
    return dict(zip(("unit", "at", "x"), zip(*rows, strict=True), strict=True))


PANELS = {
    "dates": panel(),
    "dates, in the order of time": panel(interleaved=True),
    "counts": panel(times=range(N)),
    "numbers of sequences": panel(sequences=("01", "02", "10")),
    "sequences after one another": panel(sequences=("A",)),
}


@pytest.mark.parametrize("name", PANELS)
def test_sequences_are_told_apart_by_labels_that_share_their_times(tmp_path, name):
    content = PANELS[name]
    task = OwnSequences(data=write(tmp_path, table(**content)))
    found = task.read()
    assert found.ids == tuple(dict.fromkeys(content["unit"]))
    assert set(found.lengths.tolist()) == {N}
    assert [channel.name for channel in found.channels] == ["x"]
    assert "unit names the sequences; --sequence names another column" in found.notes
    by_features = read(task.data, Roles(features=("x",)))
    assert (by_features.ids, by_features.values.tolist()) == (found.ids, found.values.tolist())


@pytest.mark.parametrize("recognise", ["values", "names"])
def test_columns_found_by_their_names_are_told_unless_somebody_named_them(tmp_path, recognise):
    rows = panel()
    data = write(tmp_path, table(series_id=rows["unit"], date=range(3 * N), x=rows["x"]))
    told = [
        "series_id names the sequences; --sequence names another column",
        "date orders the steps; --time names another column",
    ]
    task = OwnSequences(data=data, recognise=recognise)
    assert [line for line in task.told() if line in told] == told
    named = OwnSequences(data=data, recognise=recognise, sequence="series_id", time="date")
    assert not any("another column" in line for line in named.told())
    assert named.read().values.tolist() == task.read().values.tolist()


def test_files_that_are_sequences_are_told(tmp_path):
    files = [write(tmp_path, table(t=range(9), x=range(i, 18 + i, 2)), f"{i}.csv") for i in (1, 2)]
    told = "each file is a sequence; --sequence names a column"
    assert told in read(str(tmp_path)).notes
    assert told not in read(files[0]).notes
    assert told not in read(str(tmp_path), Roles(sequence="t", features=("x",))).notes


def test_a_column_that_is_forecast_for_its_name_is_told_before_its_run(tmp_path):
    """Where the settings of the run have the column's name by then."""
    data = write(tmp_path, table(ds=TIMES, y=AIRLINE))
    task = OwnSequences(data=data).understood()
    assert "y is forecast; --target names other columns" in task.told()
    assert "y is forecast; --target names other columns" in replace(task, horizon=6).told()


def test_words_that_cannot_be_forecast_are_told_with_the_reason(tmp_path):
    commas = write(tmp_path, "day;use\n" + "".join(f"{i};{i},5\n" for i in range(20)))
    for target in ("", "use"):
        with pytest.raises(TaskError, match="use holds numbers with a comma, such as '0,5'"):
            OwnSequences(data=commas, problem="forecast", target=target).told()
    words = table(t=range(20), x=range(20), mode=["on", "off"] * 10)
    with pytest.raises(TaskError, match="can be forecast: mode holds words"):
        OwnSequences(data=write(tmp_path, words), problem="forecast", target="mode").told()


def test_a_target_of_words_without_inputs_is_named(tmp_path):
    shares = table(ds=TIMES, y=[f"{50 + i % 7}%" for i in range(N)])
    with pytest.raises(SequencesError, match="y is the target and holds words such as '50%'"):
        read(write(tmp_path, shares))


def test_steps_of_equal_times_lead_to_the_option_that_tells_sequences_apart(tmp_path):
    rows = [(t, store, item) for t in range(20) for store in (1, 2) for item in (1, 2)]
    date, store, item = zip(*rows, strict=True)
    data = write(tmp_path, table(date=date, store=store, item=item, sales=range(0, 160, 2)))
    said = "60 steps have the same date as the step before: they are kept in the order of the file"
    option = "; --sequence names a column that tells several apart"
    assert said + option in read(data).notes
    in_stores = said.replace("60", "40")
    assert in_stores in read(data, Roles(sequence="store")).notes


def test_the_target_is_what_is_forecast_where_nothing_else_is_left(tmp_path):
    plain = OwnSequences(data=write(tmp_path, table(ds=TIMES, y=AIRLINE), "plain.csv"))
    rows = panel()
    names = {"unique_id": rows["unit"], "ds": rows["at"], "y": rows["x"]}
    roles = {"sequence": "unique_id", "time": "ds", "target": "y"}
    named = OwnSequences(data=write(tmp_path, table(**names), "m4.csv"), **roles)
    for task in (plain, named):
        assert "to be learned: a forecast of the next values of y" in task.told()
        assert "no other column is left as an input: y is forecast" in task.told()
        assert (task.understood().problem, task.understood().target) == ("forecast", "y")
    with pytest.raises(TaskError, match="no column is left as an input from which y could be"):
        OwnSequences(data=plain.data, problem="numbers").told()
    constant = table(
        id=[i // 4 for i in range(80)], t=[0, 1, 2, 3] * 20, y=[1, 1, 1, 1, 2, 2, 2, 2] * 10
    )
    with pytest.raises(SequencesError, match="no column is left as an input"):
        read(write(tmp_path, constant))


def test_a_horizon_means_a_forecast(tmp_path):
    path = write(tmp_path, table(ds=TIMES, load=AIRLINE, y=SMOOTH))
    named = OwnSequences(data=path, target="load", horizon=7)
    assert "to be learned: a forecast of the next values of load" in named.told()
    by_name = OwnSequences(data=path, horizon=7)
    assert "to be learned: a forecast of the next values of y" in by_name.told()
    assert "y is forecast; --target names other columns" in by_name.told()
    assert [channel.name for channel in by_name.read().channels] == ["load", "y"]
    assert by_name.understood().target == "y"
    with pytest.raises(TaskError, match="or forecast this one with --problem forecast"):
        OwnSequences(data=path, target="load").told()


def test_frames_and_parquet_are_recognised_as_tables_of_text_are(tmp_path):
    dates = pandas.to_datetime(TIMES)
    frames = {
        "an index of dates": pandas.DataFrame({"x": AIRLINE}, index=dates),
        "with a name": pandas.DataFrame({"x": AIRLINE}, index=dates.rename("when")),
        "with a zone": pandas.DataFrame({"x": AIRLINE}, index=dates.tz_localize("Asia/Tokyo")),
        "of quarters": pandas.DataFrame(
            {"x": AIRLINE}, index=pandas.period_range("1949Q1", periods=N, freq="Q")
        ),
        "a column of dates": pandas.DataFrame({"when": dates, "x": AIRLINE}),
        "with zones": pandas.DataFrame({"when": dates.tz_localize("UTC"), "x": AIRLINE}),
        "of days": pandas.DataFrame({"when": [d.date() for d in dates], "x": AIRLINE}),
        "of texts": pandas.DataFrame({"when": MONTHS, "x": AIRLINE}),
        "a plain index": pandas.DataFrame({"x": AIRLINE}),
        "a count": pandas.DataFrame({"no": range(N), "x": AIRLINE}),
    }
    for name, frame in frames.items():
        turned = frame if name == "a count" or name == "a plain index" else frame[::-1]
        found = read(turned)
        assert [channel.name for channel in found.channels] == ["x"], name
        np.testing.assert_array_equal(found.values[:, 0], AIRLINE, name)
        if "quarters" not in name:
            turned.to_parquet(tmp_path / "a.parquet")
            found = read(tmp_path / "a.parquet")
            np.testing.assert_array_equal(found.values, np.array(AIRLINE)[:, None], name)


def test_rows_of_the_ucr_archive_are_series_and_not_steps(tmp_path):
    generator = np.random.default_rng(0)
    series = generator.normal(size=(36, 251)).round(4)
    rows = [[1 + i % 3, *one] for i, one in enumerate(series.tolist())]
    rows[4][-20:] = ["NaN"] * 20
    content = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    task = OwnSequences(data=write(tmp_path, content, "ArrowHead_TRAIN.tsv"))
    found = task.read()
    assert (len(found), found.target.classes) == (36, ("1", "2", "3"))
    assert found.lengths.tolist() == [231 if i == 4 else 251 for i in range(36)]
    np.testing.assert_array_equal(found.values[:251, 0], series[0])
    assert "each row is read as a series, its label first" in found.notes[0]
    assert read(pandas.DataFrame(rows).astype(float)).lengths.tolist() == found.lengths.tolist()
    named = Roles(features=("column 2", "column 3"))
    assert read(task.data, named).values.shape == (36, 2)


def test_numbers_without_names_stay_steps(tmp_path):
    steps = np.random.default_rng(0).normal(size=(60, 12)).round(4).tolist()
    found = read(write(tmp_path, "".join(",".join(map(str, row)) + "\n" for row in steps)))
    assert found.values.shape == (60, 12)


READ = ["2020-01-31", "1949-01", "1949M1", "1992Q1", "1992-Q4", "Q1 1992", "2020/1/31",
        "2020-01-01T00:00:00Z", "2020-01-01 00:00:00 GMT", "2020-01-01 00:00+05:30"]  # fmt: skip
NOT_READ = ["01/02/2020", "31.12.99", "1/13/2020 10:00 AM", "31 Jan 2020", "Jan-20",
            "31JAN20", "January 31, 2020", "Sun Jan  1 2017", "10:00", "10:00:05", "may", "Monday",
            "1/2/20 10:00"]  # fmt: skip
NO_DATES = ["sound", "decline 3", "M01", "1949-13", "1.5", "sunny", "marble", "A-1", "3/4", ""]


def test_which_texts_are_dates():
    assert [text for text in READ if not is_moment(text)] == []
    assert [text for text in NOT_READ if is_moment(text) or not looks_like_date(text)] == []
    assert [text for text in NO_DATES if is_moment(text) or looks_like_date(text)] == []
    assert read(pandas.DataFrame({"t": ["1992Q2", "1992Q1"], "x": [2, 1]})).values.tolist() == [
        [1],
        [2],
    ]
