"""An ONNX file computes what its module does: every unit, every choice, every form."""

import math

import onnx
import pytest
import torch
from own_units import PLAIN, RDAS
from random_settings import drawn

import rda
from rda.exporting import onnx_file
from rda.exporting.checking import TOLERANCE, difference, random_inputs, runner_of_module
from rda.exporting.subject import Form, describe

HUGE = 1e4


def compared(layer, form, time, batch, change=None):
    """The largest difference between the file and the layer on one random input."""
    subject = describe(layer, form)
    run = onnx_file.runner(onnx_file.written(subject, form), subject)
    inputs = random_inputs(subject, form, time, batch, torch.Generator().manual_seed(1))
    if change is not None:
        change(inputs)
    with torch.no_grad():
        results = zip(run(inputs), runner_of_module(layer, form)(inputs), strict=True)
        return max(difference(*pair) for pair in results)


@pytest.mark.parametrize("tens", range(20))
def test_two_hundred_random_settings(tens):
    """Each is equal, or is refused in one line."""
    for seed in range(10 * tens, 10 * tens + 10):
        layer, form, time, batch = drawn(seed)
        try:
            found = compared(layer, form, time, batch)
        except rda.ExportError as error:
            assert form.one_step
            assert form.with_lengths or layer.bidirectional
            assert "\n" not in str(error)
        else:
            assert found <= TOLERANCE, (seed, layer, form, found)
