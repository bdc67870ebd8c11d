"""Text from elsewhere, made fit to be shown."""

import unicodedata

from rda.wording import visible


def test_no_control_character_but_line_ends_and_tabs_reaches_a_terminal():
    controls = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"]
    shown = visible("".join(controls))
    assert len(shown) == len(controls) == 65
    assert [letter for letter in shown if unicodedata.category(letter) == "Cc"] == ["\t", "\n"]
    assert visible("\x1b[2J\r\x7f\x9b") == "\u241b[2J\u240d\u2421\ufffd"


def test_other_text_is_left_alone():
    text = "na\u00efve \u65e5\u672c \U0001f600\u00a0\n\tend"
    assert visible(text) == text
