"""Recorded results as text: the tables of benchmarks/README.md are made here and nowhere else."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PEER = "nn.LSTM"


def render_readme() -> str:
    """The README of this folder, from its template and the recorded results."""
    parts = [(FOLDER / "README.in.md").read_text().rstrip()]
    for path in sorted((FOLDER / "results").glob("*.json")):
        parts.append(f"## Recorded: {path.stem}\n\n{render_results(json.loads(path.read_text()))}")
    return "\n\n".join(parts) + "\n"


def render_results(results: dict[str, Any]) -> str:
    """One run as Markdown."""
    machine = results["machine"]
    lines = [
        f"{machine['cpu']} ({machine['vectors']}), {machine['threads']} threads, torch "
        f"{machine['torch']}, Python {machine['python']}, {machine['date']}, commit "
        f"`{machine['commit']}`, `{machine['command']}`.",
        "",
        "Milliseconds, median (lower to upper quartile); in bold, how many times as fast as "
        "nn.LSTM in the same run. Memory: megabytes that one training step adds.",
    ]
    for case in results["cases"]:
        lines += ["", *_case(case)]
    lines += ["", *_stream(results["streaming_us"])]
    return "\n".join(lines)


def _case(case: dict[str, Any]) -> list[str]:
    memory = case.get("peak_memory_mb", {})
    title = (
        f"**{case['units']} units, batch {case['batch']}, {case['time']} steps, "
        f"{case['inputs']} inputs** ({case['rounds']} rounds)"
    )
    lines = [
        title,
        "",
        "| | forward | | training step | | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    peer = case["times_ms"][PEER]
    for name, times in case["times_ms"].items():
        cells = []
        for kind in ("forward", "training"):
            ratio = peer[kind]["median"] / times[kind]["median"]
            cells += [_spread(times[kind], 1), f"**{ratio:.2f}x**"]
        used = memory.get(name)
        lines.append(f"| {name} | {' | '.join(cells)} | {'-' if used is None else f'{used:.0f}'} |")
    return lines


def _stream(stream: dict[str, Any]) -> list[str]:
    lines = [
        f"**Single steps**, one row, {stream['units']} units, the state carried, no gradients: "
        "microseconds a step.",
        "",
        "| | one step |",
        "|---|---|",
    ]
    return lines + [f"| {name} | {_spread(times, 0)} |" for name, times in stream["times"].items()]


def _spread(times: dict[str, float], digits: int) -> str:
    low, middle, high = (f"{times[key]:.{digits}f}" for key in ("low", "median", "high"))
    return f"{middle} ({low} to {high})"
