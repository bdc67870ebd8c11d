"""NVIDIA's compute-sanitizer finds no memory error and no data race in any kernel."""

import shutil
import subprocess
import sys

import pytest
import small_cases

SANITIZER = shutil.which("compute-sanitizer")
CLEAN = {
    "memcheck": "ERROR SUMMARY: 0 errors",
    "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
}


@pytest.mark.skipif(SANITIZER is None, reason="needs compute-sanitizer of the CUDA toolkit")
@pytest.mark.parametrize("tool", CLEAN)
def test_sanitizer_is_content(tool):
    levels = ["--racecheck-report", "all"] if tool == "racecheck" else []
    command = [SANITIZER, "--tool", tool, *levels, sys.executable, small_cases.__file__]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert CLEAN[tool] in found.stdout, found.stdout
