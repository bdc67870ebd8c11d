"""One small run of each kind."""

import pytest
from tiny_runs import TINY_RUNS


@pytest.fixture(params=TINY_RUNS)
def tiny(request):
    return TINY_RUNS[request.param]
