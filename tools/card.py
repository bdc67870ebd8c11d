"""The card of a model that comes with the package, made from its record."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rda.commands.finding import trained_on
from rda.report.wording import duration
from rda.training.record import MODEL, Record, as_json
from rda.wording import counted

CARD, PACKING = "README.md", "packing.json"


@dataclass(frozen=True)
class Packing:
    """What the record of a run does not say about its model as it is packed."""

    dtype: str
    """In which the weights are stored."""
    parameters: int
    kind: str
    """Of the symbols: bytes or characters."""
    symbols: int
    """In the vocabulary."""
    text: str
    """The name of the text that was read before and after rounding."""
    length: int
    """How many of its symbols were predicted."""
    bits: float
    """Of a symbol of that text, with the weights of the run."""
    bits_rounded: float
    """The same with weights in bfloat16."""


TITLE = """\
# {unit}, trained on {title}

A model of text that predicts the next {symbol}. It comes with the package: `rda generate` and
`rda evaluate` use it where they are given no run, and `rda.load(rda.PRETRAINED)` gives it to
Python. This folder is the record of the run that trained it. The card is made from the record by
`tools/pretrained.py`.
"""
WIKIPEDIA = """\
## The text and its licence

enwik8 is the first 100,000,000 bytes of a dump of the English Wikipedia of March 2006: articles
with their markup, prepared for the
[Large Text Compression Benchmark](https://mattmahoney.net/dc/textdata.html) and used by the Hutter
Prize. It is not a part of this package. Of its first {used:,} bytes, 90% trained the model, the
next 5% chose the weights, and the last 5% are the test.

In 2006 the text of Wikipedia was under the GNU Free Documentation License. In June 2009 the
Wikimedia Foundation made what was under its version 1.2 or any later one available under Creative
Commons Attribution-ShareAlike 3.0 as well
([licensing update](https://en.wikipedia.org/wiki/Wikipedia:Licensing_update)). The authors are
named in the history of each article; enwik8 itself names only the last of them. Single passages,
such as quotations, may have other terms. We know of no separate licence of enwik8.

The licence of this package, Apache-2.0, is that of its code, and of the weights as far as they are
ours to license. Whether weights are a work derived from the text that they were trained on is not
settled. Where the model repeats a passage of Wikipedia, the terms of that passage hold.
"""
OTHER_TEXT = """\
## The text and its licence

{file}: its first 90% trained the model, the next 5% chose the weights, and the last 5% are the
test. The terms of that text are its owner's.
"""
USE = """\
## Use and limits

It is there to try `rda generate` and `rda evaluate` at once, to show what a unit of this kind
learns from text, and to be compared with models of your own.

It is small and knows nothing beyond the look of its text: what it writes reads like that text and
is made up. It may repeat passages, and say what is false, offensive or about real people. It
follows no instructions and remembers nothing beyond its state. Do not use it as a source of facts,
for decisions about people, or where its text could be taken for that of a person.
"""
WIKIPEDIA_LIMITS = """\
Its language is the English of an encyclopedia with wiki and XML markup, as it was in 2006, with
that text's gaps and biases; other languages occur mostly as names and links.
"""


def write_packing(folder: Path, packing: Packing) -> None:
    """Write `packing.json`."""
    (folder / PACKING).write_bytes(as_json(asdict(packing)))


def read_packing(folder: Path) -> Packing:
    """The inverse of `write_packing`."""
    return Packing(**json.loads((folder / PACKING).read_text()))


def render_card(folder: Path) -> str:
    """The card of the model in a folder."""
    record, packing = Record(folder), read_packing(folder)
    task = record.settings.task
    is_wikipedia = task.name == "wikipedia"
    title = TITLE.format(
        unit=record.settings.unit, title=trained_on(record), symbol=packing.kind.removesuffix("s")
    )
    rows = [f"| {name} | {value} |\n" for name, value in _facts(record, packing)]
    table = f"| | |\n|---|---|\n{''.join(rows)}"
    about = WIKIPEDIA if is_wikipedia else OTHER_TEXT
    text = about.format(used=getattr(task, "characters", None), file=trained_on(record))
    limits = [WIKIPEDIA_LIMITS] if is_wikipedia else []
    return "\n".join([title, table, text, USE, *limits])


def tested_bits(record: Record) -> str:
    """The bits per character of the test, as all documents write them."""
    return f"{record.status.test['test_bits']:.3f}"


def _facts(record: Record, packing: Packing) -> Iterable[tuple[str, str]]:
    settings, status, starts = record.settings, record.status, record.environment
    size = (record.folder / MODEL).stat().st_size
    is_bytes = packing.kind == "bytes"
    yield "unit", f"{settings.unit}, {counted(settings.recipe.hidden_size, 'unit')}"
    embedding = counted(settings.task.embedding_size, "dimension")
    yield "reads and writes", f"{packing.symbols} different {packing.kind}, embedded in {embedding}"
    yield "size", f"{counted(packing.parameters, 'parameter')}, {size / 1e6:,.1f} MB"
    yield "trained on", trained_on(record)
    noted = ", where each byte counts as a character" if is_bytes else ""
    yield "test", f"{tested_bits(record)} bits per character{noted}"
    validated = f"{status.best['validation_bits']:.3f} bits per character"
    yield "validation", f"{validated} at step {status.best_step:,}, whose weights these are"
    yield "training", f"{counted(status.step, 'step')} in {duration(status.seconds)}"
    yield "stored as", _rounding(packing)
    yield "seed", str(settings.recipe.seed)
    yield "command", _each(f"`{start.get('command')}`" for start in starts)
    yield "hardware", _each(_hardware(start) for start in starts)
    yield "versions", _each(_versions(start) for start in starts)
    yield "commit", _each(_commit(start) for start in starts)


def _rounding(packing: Packing) -> str:
    read = f"{packing.text} ({counted(packing.length, packing.kind.removesuffix('s'))})"
    bits = f"{packing.bits:.4f} to {packing.bits_rounded:.4f} bits on {read}"
    if packing.dtype == "float32":
        return f"float32; bfloat16 would change {bits}"
    return f"{packing.dtype}, computed in float32; rounding, after the test, changes {bits}"


def _hardware(start: dict[str, Any]) -> str:
    gpu = f"{start['gpu']}, CUDA {start.get('cuda')}, " if start.get("gpu") else ""
    return (
        f"{gpu}{start.get('processor')}, {start.get('cores')} cores, engine {start.get('engine')}"
    )


def _versions(start: dict[str, Any]) -> str:
    return f"rda {start.get('rda')}, torch {start.get('torch')}, Python {start.get('python')}"


def _commit(start: dict[str, Any]) -> str:
    git = start.get("git")
    if not git:
        return "not recorded"
    return f"`{git['commit']}`{' with changes' if git['dirty'] else ''}"


def _each(words: Iterable[str]) -> str:
    """What the starts of a run have in common once, otherwise one after the other."""
    return "; then ".join(dict.fromkeys(words))
