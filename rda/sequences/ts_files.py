"""The .ts files of the UCR and UEA archives: a header, then a sequence in each line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rda.sequences.columns import numbers
from rda.sequences.dataset import (
    Channel,
    Numbers,
    Sequences,
    SequencesError,
    Target,
    from_arrays,
    target_of,
)
from rda.sequences.extremes import without_infinities
from rda.sequences.memory import require, require_rows
from rda.sequences.moments import MISSING
from rda.sequences.text_files import Lines, opened

BYTES_A_VALUE = 16
"""A value is held twice while the sequences are put into one array."""
BLOCK = 1 << 21
"""Characters after which it is looked again whether the rest fits into memory."""


@dataclass(frozen=True)
class _Header:
    """The words after each @name, in small letters."""

    words: dict[str, list[str]]

    def says(self, name: str) -> bool:
        """Whether the first word is true."""
        return self.words.get(name, [""])[:1] == ["true"]

    @property
    def answers(self) -> str:
        """Whether there are classes, numbers or neither."""
        return "classes" if self.says("classlabel") else "numbers" * self.says("targetlabel")

    @property
    def channels(self) -> int | None:
        """As many as there should be, where that is said."""
        found = "".join(self.words.get("dimensions", []))
        return int(found) if found.isdecimal() and len(found) < 10 else None


def read_ts(paths: list[Path], encoding: str) -> Sequences:
    """The sequences of one or more files with the same channels and classes."""
    pieces: list[Numbers] = []
    answers: list[str] = []
    kinds: list[tuple[str, list[str]]] = []
    for path in paths:
        # Comments are often in another encoding; what cannot be read stays apart in labels.
        with opened(path, encoding, errors="backslashreplace") as lines:
            numbered = enumerate(lines, 1)
            header, classes = _header(path, numbered)
            kinds.append((header.answers, classes))
            _read(lines, numbered, header, classes, pieces, answers)
    if any(kind != kinds[0] for kind in kinds):
        raise SequencesError(f"the files have other classes than {paths[0]}")
    if not pieces:
        raise SequencesError(f"{paths[0]} has no sequence below @data")
    require(sum(piece.nbytes for piece in pieces), str(paths[0]))
    found = from_arrays(pieces)
    channels = (Channel("value"),) if len(found.channels) == 1 else found.channels
    target = _target(kinds[0][0], answers, paths[0]) if kinds[0][0] else None
    values = without_infinities(found.values)
    return Sequences(values, found.lengths, channels, found.ids, target)


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[_Header, list[str]]:
    """The header, and the classes that it lists."""
    found: dict[str, list[str]] = {}
    classes: list[str] = []
    for number, line in lines:
        line = line.strip()
        if not line or line[0] in "#%":
            continue
        if line.lower() == "@data":
            break
        if not line.startswith("@"):
            raise SequencesError(f"line {number:,} of {path} is neither a header nor below @data")
        name, *words = line[1:].split() or [""]
        found[name.lower()] = [word.lower() for word in words]
        if name.lower() == "classlabel":
            classes = words[1:]
    else:
        raise SequencesError(f"{path} has no line @data: it is not a .ts file")
    header = _Header(found)
    if header.says("timestamps"):
        raise SequencesError(f"{path} has time stamps in its cells, which cannot be read")
    return header, classes


def _read(
    lines: Lines, numbered: Iterator[tuple[int, str]], header: _Header, classes: list[str],
    pieces: list[Numbers], answers: list[str],
) -> None:  # fmt: skip
    """The sequences below @data, added to those of other files."""
    look_at, lengths = BLOCK, set()
    for number, line in numbered:
        line, where = line.strip(), f"line {number:,} of {lines.path}"
        if not line or line[0] in "#%":
            continue
        fields = line.split(":")
        if header.answers:
            answers.append(fields.pop().strip())
            if not fields:
                raise SequencesError(f"{where} should end in a colon and its {header.answers}")
            if classes and answers[-1] not in classes and answers[-1].lower() not in MISSING:
                raise SequencesError(
                    f"{where} has the class {answers[-1]!r}, not one of @classLabel"
                )
        if header.channels not in (None, len(fields)):
            raise SequencesError(
                f"{where} has {len(fields)} channels, and @dimensions says {header.channels}"
            )
        pieces.append(_sequence(fields, where))
        lengths.add(len(pieces[-1]))
        if header.says("equallength") and len(lengths) > 1:
            raise SequencesError(f"{where} is not as long as those before, as @equalLength says")
        if lines.characters >= look_at:
            look_at = lines.characters + BLOCK
            values = sum(piece.size for piece in pieces)
            share = min(lines.position / max(lines.size, 1), 1.0)
            require_rows(values, share, BYTES_A_VALUE, str(lines.path))


def _sequence(fields: list[str], where: str) -> Numbers:
    try:
        channels = [numbers(one.split(",")) for one in fields]
    except ValueError as error:
        raise SequencesError(f"{where} cannot be read: {error}") from error
    if len({len(one) for one in channels}) > 1:
        raise SequencesError(f"{where} has channels of unequal length")
    return np.stack(channels, 1)


def _target(kind: str, answers: list[str], path: Path) -> Target:
    known = [None if one.lower() in MISSING else one for one in answers]
    if kind == "classes":
        return target_of(np.array(known, dtype=object), "class", False)
    try:
        return target_of(numbers([one or "" for one in known]), "target", False)
    except ValueError as error:
        raise SequencesError(f"a target of {path} is not a number: {error}") from error
