"""The record of a GPU as Markdown."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from cpu_table import PEER, size, spread

SLOWER = 1.10
"""Ratios of the grid above this are printed in bold."""
MARKS = ("", "\N{SUPERSCRIPT ONE}", "\N{SUPERSCRIPT TWO}", "\N{SUPERSCRIPT THREE}")
"""Footnote marks for engines: the first, empty one is for the engine of most cells."""

Entry = dict[str, Any]


def render(results: Entry, picture: str = "") -> str:
    """The Markdown of all recorded parts; `picture` is the Markdown of the grid's picture."""
    parts = {name: results["parts"][name] for name in SECTIONS if name in results["parts"]}
    users: dict[str, list[str]] = {}
    for name, part in parts.items():
        users.setdefault(hardware(part["machine"]), []).append(name)
    lines = [
        told if len(users) == 1 else f"{', '.join(names)}: {told}\n"
        for told, names in users.items()
    ]
    lines += [
        "",
        "Milliseconds by the wall clock, median (lower to upper quartile). A turn is one untimed "
        "step, then three back to back between two synchronisations, or one where a step takes "
        "more than 50 ms.",
    ]
    for name, part in parts.items():
        lines += ["", *SECTIONS[name](part), "", stamp(part["machine"])]
        if name == "grid" and picture:
            lines += ["", picture]
    return "\n".join(lines)


def stamp(machine: Entry) -> str:
    """When something was recorded, from which code and by which command."""
    return f"{machine['date']}, commit `{machine['commit']}`, `{machine['command']}`."


def hardware(machine: Entry) -> str:
    """The machine and the versions in words."""
    names = {
        "gpu": "",
        "driver": "driver ",
        "cuda": "CUDA ",
        "cudnn": "cuDNN ",
        "triton": "Triton ",
        "torch": "torch ",
        "python": "Python ",
        "cpu": "",
    }
    facts = (f"{text}{machine[name]}" for name, text in names.items() if machine.get(name))
    return ", ".join(facts) + "."


def _main(part: Entry) -> list[str]:
    return ["### At the paper's size", "", *_comparisons(part)]


def _large(part: Entry) -> list[str]:
    return ["### At the size of the paper's language model", "", *_comparisons(part)]


def _comparisons(part: Entry) -> list[str]:
    lines = [
        "In bold, how many times as fast as nn.LSTM in the same precision. Memory: megabytes at "
        "the peak of a training step, beside weights and input."
    ]
    for comparison in part["comparisons"]:
        lines += [
            "",
            f"**{size(comparison)}**",
            "",
            "| precision | | engine | rounds | forward | | training step | | peak memory |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        subjects = comparison["subjects"]
        peers = {s["precision"]: s for s in subjects if s["name"] == PEER and "error" not in s}
        lines += [_row(subject, peers.get(subject["precision"])) for subject in subjects]
    return lines


def _row(subject: Entry, peer: Entry | None) -> str:
    named = f"| {subject['precision']} | {subject['name']} | {subject.get('engine', '-')} |"
    if "error" in subject:
        return f"{named} | not measured: {_in_a_cell(subject['error'])} | | | | |"
    cells = []
    for kind in ("forward", "training"):
        times = subject[kind]
        faster = "-" if peer is None else f"**{peer[kind]['median'] / times['median']:.2f}x**"
        cells += [spread(times, 2), faster]
    used = subject["peak_memory_mb"]
    memory = "-" if used is None else f"{used:.0f}"
    return f"{named} {subject['training']['rounds']} | {' | '.join(cells)} | {memory} |"


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _grid(part: Entry) -> list[str]:
    return ["### Over sizes", "", *_ratios(part)]


def _long(part: Entry) -> list[str]:
    return ["### Over long sequences", "", *_ratios(part)]


def _ratios(part: Entry) -> list[str]:
    cells = part["cells"]
    engines = Counter(cell["engine"] for cell in cells if "error" not in cell)
    marks = {name: mark for (name, _), mark in zip(engines.most_common(), MARKS, strict=False)}
    legend = [f"{mark} {name}".strip() for name, mark in marks.items()]
    slower = sum(cell.get("ratio", 0.0) > SLOWER for cell in cells)
    lines = [
        f"The time of a training step of RDA-exp-tanh over that of nn.LSTM: below 1 is faster. "
        f"{part['time']} steps, {part['inputs']} inputs. In bold, above {SLOWER:.2f}: {slower} of "
        f"{len(cells)}. RDA's engine: {', '.join(legend)}.",
    ]
    lines += _by_precision(cells, lambda cell: _ratio(cell, marks))
    failed = {cell["error"]: cell for cell in cells if "error" in cell}
    for error, cell in failed.items():
        where = f"{cell['precision']}, {cell['units']} units, batch {cell['batch']}"
        lines += ["", f"Not measured ({where}): {error}"]
    return lines


def _by_precision(cells: list[Entry], show: Callable[[Entry], str]) -> list[str]:
    """One table per precision, with a row per number of units and a column per batch size."""
    lines = []
    batches = list(dict.fromkeys(cell["batch"] for cell in cells))
    for precision in dict.fromkeys(cell["precision"] for cell in cells):
        here = [cell for cell in cells if cell["precision"] == precision]
        lines += [
            "",
            f"| {precision} | {' | '.join(f'batch {batch}' for batch in batches)} |",
            f"|---|{'---|' * len(batches)}",
        ]
        for units in dict.fromkeys(cell["units"] for cell in here):
            shown = (show(cell) for cell in here if cell["units"] == units)
            lines.append(f"| {units} units | {' | '.join(shown)} |")
    return lines


def _engines(part: Entry) -> list[str]:
    cells = part["cells"]
    wrong = sum("error" not in cell and _loses(cell) for cell in cells)
    lines = [
        "### One engine beside the other",
        "",
        "The engine that is quickest in a training step of RDA-exp-tanh, and how many times as "
        f"long the next one takes. {part['inputs']} inputs. In bold where `auto` takes one that is "
        f"slower by more than a tenth: {wrong} of {len(cells)}.",
    ]
    by_time: dict[int, list[Entry]] = {}
    for cell in cells:
        by_time.setdefault(cell["time"], []).append(cell)
    for time, here in by_time.items():
        lines += ["", f"{time} steps:", *_by_precision(here, _choice)]
    return lines


def _ranking(cell: Entry) -> list[tuple[float, str]]:
    return sorted((times["median"], name) for name, times in cell["training"].items())


def _loses(cell: Entry) -> bool:
    chosen = cell["training"][cell["engine"]]["median"]
    return bool(chosen > SLOWER * _ranking(cell)[0][0])


def _choice(cell: Entry) -> str:
    if "error" in cell:
        return "-"
    (quickest, name), *others = _ranking(cell)
    text = f"{name} {others[0][0] / quickest:.2f}" if others else name
    return f"**{text}**" if _loses(cell) else text


def _kernels(part: Entry) -> list[str]:
    lines = ["### Where the time of a training step goes"]
    for step in part["steps"]:
        lines += [
            "",
            f"**RDA-exp-tanh, {size(step)}, {step['precision']}, engine {step['engine']}**: "
            f"{step['microseconds'] / 1e3:.2f} ms of kernels.",
            "",
            "| kernel | launches | microseconds each | share |",
            "|---|---|---|---|",
        ]
        for kernel in step["kernels"]:
            each = kernel["microseconds"] / kernel["count"]
            share = kernel["microseconds"] / step["microseconds"]
            name = _in_a_cell(kernel["name"])[:60]
            lines.append(f"| `{name}` | {kernel['count']} | {each:.1f} | {share:.0%} |")
    return lines


def _ratio(cell: Entry, marks: dict[str, str]) -> str:
    if "error" in cell:
        return "-"
    text = f"{cell['ratio']:.2f}"
    text = f"**{text}**" if cell["ratio"] > SLOWER else text
    return text + marks.get(cell["engine"], "")


def _overhead(part: Entry) -> list[str]:
    lines = [
        "### A whole training step beside its layer",
        "",
        f"{part['unit']} on {part['task']}, {size(part)}: a batch drawn, forward, loss, backward, "
        "clipping, Adam and the record of it, beside forward and backward of the layer alone.",
        "",
        "| precision | whole step | bare layer | ratio |",
        "|---|---|---|---|",
    ]
    return lines + [
        f"| {row['precision']} | {spread(row['whole'], 2)} | {spread(row['bare'], 2)} | "
        f"**{row['ratio']:.2f}** |"
        for row in part["rows"]
    ]


def _first_use(part: Entry) -> list[str]:
    return [
        "### First use",
        "",
        "Seconds that the first forward and backward pass of RDA-exp-tanh takes in a process, in "
        "which its engine is compiled, or found compiled; and those of two processes that begin "
        "at once on an empty cache.",
        "",
        "| | engine | empty cache | full cache | two at once | |",
        "|---|---|---|---|---|---|",
        *(_first(use) for use in part["uses"]),
    ]


def _first(use: Entry) -> str:
    answers = [use["empty_cache"], use["full_cache"]]
    cells = [_seconds(answer) for answer in answers]
    cells.append(" and ".join(_seconds(answer) for answer in use["together"]))
    agree = "same output" if use["agree"] else "**outputs differ**"
    agree += ", but one came when all was done" if _was_late(use) else ""
    engine = use["empty_cache"].get("engine", "-")
    return f"| {use['precision']}, {size(use)} | {engine} | {' | '.join(cells)} | {agree} |"


def _was_late(use: Entry) -> bool:
    """Whether one process found the other's result and compiled nothing itself."""
    spent = [answer.get("seconds", math.inf) for answer in use["together"]]
    return bool(min(spent) < use["empty_cache"].get("seconds", 0.0) / 2)


def _seconds(answer: Entry) -> str:
    return f"{answer['seconds']:.2f}" if "seconds" in answer else _in_a_cell(answer["error"])


SECTIONS: dict[str, Callable[[Entry], list[str]]] = {
    "main": _main,
    "large": _large,
    "grid": _grid,
    "long": _long,
    "engines": _engines,
    "kernels": _kernels,
    "overhead": _overhead,
    "first-use": _first_use,
}
