"""The table of forecasts in docs/sequences.md is what the recorded runs say."""

import re
from pathlib import Path

import pytest

from rda.choosing.contest import best
from rda.training.record import Record, run_folders

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "results" / "sequences"


def test_the_page_says_what_the_records_say():
    page = (ROOT / "docs" / "sequences.md").read_text()
    shown = dict(re.findall(r"^\| (\S+) \| (\d\.\d{3}) \|$", page, re.M))
    found = {}
    for record in map(Record, run_folders(RECORDED)):
        assert record.status.state == "finished"
        assert not record.damaged()
        found.setdefault(record.settings.unit, []).append(record)
    assert set(shown) == set(found)
    for unit, records in found.items():
        recipe = best([one for one in records if one.settings.recipe.seed == 0]).settings.recipe
        same = [one for one in records if one.settings.recipe.learning_rate == recipe.learning_rate]
        errors = [one.status.test["test_error"] for one in same]
        assert len(errors) == 2
        assert sum(errors) / 2 == pytest.approx(float(shown[unit]), abs=6e-4), unit
