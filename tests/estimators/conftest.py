"""What the tests of the estimators share."""

import os

# Without it scikit-learn leaves out its check with arrays of another namespace. SciPy reads it
# when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest


@pytest.fixture
def waves():
    """Sequences of unequal length, (time, 2), with a label for each."""
    generator = np.random.default_rng(0)
    labels = np.array(["slow", "fast"] * 20)
    found = []
    for label in labels:
        t = np.arange(generator.integers(8, 16))
        speed = 0.4 if label == "slow" else 1.5
        found.append(np.stack([np.sin(speed * t), 50 + 3 * np.cos(speed * t)], 1))
    return found, labels


@pytest.fixture
def series():
    """One series (time) with a season."""
    t = np.arange(120)
    return 20 + 5 * np.sin(2 * np.pi * t / 12)
