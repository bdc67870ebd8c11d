"""Tables for other programs: they read what was written, and a spreadsheet calculates nothing."""

import csv
import io

import pytest

from rda.commands.table import harmless, write_table


def written(*rows):
    file = io.StringIO()
    write_table(rows, file)
    return file.getvalue()


def test_a_line_end_in_a_name_does_not_end_the_row():
    names = ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b", "a b", "\u2028"]
    text = written(*([name, 1] for name in names))
    assert [row[0] for row in csv.reader(io.StringIO(text, newline=""))] == names
    assert written(["a", 1]) == "a,1\n"


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "'=1"]
)
def test_text_that_a_spreadsheet_would_calculate_has_an_apostrophe_before_it(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize(
    "cell", ["1", "-1", "+1.5", "-1e-5", "-.5", "-3.", "-inf", "nan", "a=b", "'tis", "", "M-1", 3]
)
def test_numbers_and_other_text_stay_as_they_are(cell):
    assert harmless(cell) == cell


def test_text_can_be_had_back():
    texts = ["=1", "'=1", "''=1", "'tis", "'"]
    assert [harmless(text) for text in texts] == ["'=1", "''=1", "'''=1", "'tis", "'"]
