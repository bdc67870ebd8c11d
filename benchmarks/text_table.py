"""The record of training and writing text as Markdown."""

from typing import Any

from cpu_table import PEER, spread
from gpu_table import hardware, stamp

Entry = dict[str, Any]
SLOWEST_FIRST = ("high", "median", "low")
"""Of times: the highest is that of the slowest text."""

LEGEND = (
    "A training step is the trainer's own: a batch, forward, loss, backward, clipping and Adam. "
    "nn.LSTM and nn.GRU are the same model on torch's own implementation, which is cuDNN on a GPU. "
    f"Medians (lower to upper quartile); in bold, how many times as fast as {PEER} in the same "
    "precision. Loading is the time of a batch alone, as a share of a step."
)


def render(results: Entry) -> str:
    """The Markdown of one record."""
    machine = results["machine"]
    sections = [render_training(part) for part in results["training"]]
    sections += [render_generation(part) for part in results["generation"]]
    return "\n\n".join((hardware(machine), LEGEND, *sections, stamp(machine)))


def render_training(part: Entry) -> str:
    """All units at one size, in one precision."""
    lines = [
        f"**Training on {part['task']}, {part['precision']}**: {part['units']} units, embedding "
        f"{part['embedding']}, batch {part['batch']}, segments of {part['segment']}; an epoch is "
        f"{part['training_characters']:,} characters.",
        "",
        "| | engine | ms a step | | characters a second | seconds an epoch | loading |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    subjects = part["subjects"]
    peer = next((each for each in subjects if each["name"] == PEER and "error" not in each), None)
    return "\n".join(lines + [_row(subject, peer, part) for subject in subjects])


def _row(subject: Entry, peer: Entry | None, part: Entry) -> str:
    named = f"| {subject['name']} | {subject.get('engine', '-')} |"
    if "error" in subject:
        reason = subject["error"].replace("|", "\\|")
        return f"{named} not measured: {reason} | | | | |"
    step = subject["step"]
    faster = "-" if peer is None else f"**{peer['step']['median'] / step['median']:.2f}x**"
    rate = 1e3 * part["batch"] * part["segment"] / step["median"]
    share = subject["loading"]["median"] / step["median"]
    return (
        f"{named} {spread(step, 2)} | {faster} | {rate:,.0f} | "
        f"{part['training_characters'] / rate:.1f} | {share:.2%} |"
    )


def render_generation(part: Entry) -> str:
    """What the units write in a second, at one size on one device."""
    where = "a GPU" if part["device"] == "cuda" else "one CPU thread"
    lines = [
        f"**Writing on {where}**: {part['units']} units, random weights, texts of "
        f"{part['characters']} characters, one character after the other.",
        "",
        "| | characters a second |",
        "|---|---|",
    ]
    for name, times in part["times"].items():
        slow, usual, quick = (1e3 * part["characters"] / times[key] for key in SLOWEST_FIRST)
        lines.append(f"| {name} | {spread({'low': slow, 'median': usual, 'high': quick}, 0)} |")
    return "\n".join(lines)
