"""The .ts files of the UCR and UEA archives: a header, then a sequence in each line."""

from pathlib import Path

import numpy as np

from rda.sequences.dataset import Channel, Sequences, SequencesError, Target, from_arrays, target_of

FLAGS = {"true": True, "false": False}


def read_ts(paths: list[Path]) -> Sequences:
    """The sequences of one or more files with the same channels and classes."""
    pieces: list[np.ndarray[tuple[int, int], np.dtype[np.float64]]] = []
    answers: list[str] = []
    kinds: set[tuple[str, ...]] = set()
    for path in paths:
        header, lines = _parts(path)
        kinds.add(tuple(header.get("classlabel", []) or header.get("targetlabel", [])))
        has_target = bool(_answers(header))
        for number, line in lines:
            fields = line.split(":")
            if has_target:
                answers.append(fields.pop().strip())
            pieces.append(_sequence(fields, f"line {number:,} of {path}"))
    if len(kinds) > 1:
        raise SequencesError(f"the files have other classes than {paths[0]}")
    if not pieces:
        raise SequencesError(f"{paths[0]} has no sequence below @data")
    found = from_arrays(pieces)
    if len(found.channels) == 1:
        found = Sequences(found.values, found.lengths, (Channel("value"),), found.ids)
    if not answers:
        return found
    return Sequences(
        found.values, found.lengths, found.channels, found.ids, _target(header, answers, paths[0])
    )


def _parts(path: Path) -> tuple[dict[str, list[str]], list[tuple[int, str]]]:
    """The words after each @name of the header, and the numbered lines of data."""
    header: dict[str, list[str]] = {}
    lines: list[tuple[int, str]] = []
    in_data = False
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise SequencesError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#%":
            continue
        if in_data:
            lines.append((number, line))
        elif line.lower() == "@data":
            in_data = True
        elif line.startswith("@"):
            name, *words = line[1:].split()
            header[name.lower()] = words
        else:
            raise SequencesError(f"line {number:,} of {path} is neither a header nor below @data")
    if not in_data:
        raise SequencesError(f"{path} has no line @data: it is not a .ts file")
    if FLAGS.get("".join(header.get("timestamps", [])).lower(), False):
        raise SequencesError(f"{path} has time stamps in its cells, which cannot be read")
    return header, lines


def _answers(header: dict[str, list[str]]) -> str:
    """Whether there are classes, numbers or neither."""
    for name, kind in (("classlabel", "classes"), ("targetlabel", "numbers")):
        if FLAGS.get(" ".join(header.get(name, [])[:1]).lower(), False):
            return kind
    return ""


def _sequence(fields: list[str], where: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    try:
        channels = [
            [
                float("nan") if cell.strip() in ("?", "NaN") else float(cell)
                for cell in one.split(",")
            ]
            for one in fields
        ]
        return np.array(channels, dtype=np.float64).T
    except ValueError as error:
        raise SequencesError(f"{where} cannot be read: {error}") from error


def _target(header: dict[str, list[str]], answers: list[str], path: Path) -> Target:
    if _answers(header) == "numbers":
        try:
            return Target("target", np.array([float(one) for one in answers]))
        except ValueError as error:
            raise SequencesError(f"a target of {path} is not a number: {error}") from error
    return target_of(np.array(answers), "class", False)
