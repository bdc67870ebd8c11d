"""The record of a CPU as Markdown."""

from typing import Any

PEER = "nn.LSTM"


def render(results: dict[str, Any]) -> str:
    """The Markdown of one record."""
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


def size(case: dict[str, Any]) -> str:
    """Such as "250 units, batch 100, 200 steps, 10 inputs"."""
    busy = case.get("busy_processes", 0)
    beside = f", beside {busy} busy processes" if busy else ""
    return (
        f"{case['units']} units, batch {case['batch']}, {case['time']} steps, "
        f"{case['inputs']} inputs{beside}"
    )


def spread(times: dict[str, float], digits: int) -> str:
    """Such as "50.2 (49.8 to 50.9)"."""
    low, middle, high = (f"{times[key]:.{digits}f}" for key in ("low", "median", "high"))
    return f"{middle} ({low} to {high})"


def _case(case: dict[str, Any]) -> list[str]:
    memory = case.get("peak_memory_mb", {})
    lines = [
        f"**{size(case)}** ({case['rounds']} rounds)",
        "",
        "| | forward | | training step | | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    peer = case["times_ms"][PEER]
    for name, times in case["times_ms"].items():
        cells = []
        for kind in ("forward", "training"):
            ratio = peer[kind]["median"] / times[kind]["median"]
            cells += [spread(times[kind], 1), f"**{ratio:.2f}x**"]
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
    return lines + [f"| {name} | {spread(times, 0)} |" for name, times in stream["times"].items()]
