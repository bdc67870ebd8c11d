"""A unit's step and its gradients as C++ for the CPU engine's frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rda.symbolic.cpp import printer, scalar
from rda.symbolic.expressions import symbol
from rda.symbolic.gradient import D_HIDDEN, D_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rda.symbolic.derived import Derived
    from rda.symbolic.expressions import Expression
    from rda.symbolic.printing import Printer


def unit_text(of: Derived) -> str:
    """The constants and functions that frame.cpp expects of a unit."""
    traced, kept, gates = of.traced, of.kept, of.gates
    parts = list(traced.after)
    places = {name: k + 1 for k, name in enumerate(kept.sequences)}
    places |= {name: 0 for name, part in traced.after.items() if part is traced.output}
    hidden_part = -1 if traced.hidden_part is None else parts.index(traced.hidden_part)
    counts = {
        "X_ONLY": len(gates.x_only), "BOTH": len(gates.both), "H_ONLY": len(gates.h_only),
        "STATES": len(parts), "SEQUENCES": len(kept.sequences), "VALUES": len(kept.values),
        "WEIGHTS": len(traced.weights), "BLOCKS": len(of.blocks), "HIDDEN_PART": hidden_part,
    }  # fmt: skip
    constants = ", ".join(f"{name} = {value}" for name, value in counts.items())
    of_parts = ", ".join(str(places.get(name, -1)) for name in parts)
    starts = ", ".join(scalar(part.start) for part in of.unit.parts)
    return "\n".join(
        (
            f"constexpr int {constants};",
            f"constexpr int SEQUENCE_OF[STATES] = {{{of_parts}}};",
            f"constexpr T STARTS[STATES] = {{{starts}}};",
            _step(of),
            _hidden(of),
            _gradient(of),
            _start_gradient(of),
            "",
        )
    )


def _function(head: str, printer: Printer, ends: Iterable[str]) -> str:
    body = "".join(f"  {line}\n" for line in (*printer.lines, *ends))
    return f"inline {head} {{\n{body}}}"


def _named(array: str, expressions: Iterable[Expression]) -> dict[Expression, str]:
    return {each: f"{array}[{k}]" for k, each in enumerate(expressions)}


def _assigned(array: str, values: Iterable[str]) -> list[str]:
    return [f"{array}[{k}] = {value};" for k, value in enumerate(values)]


def _step(of: Derived) -> str:
    traced, kept = of.traced, of.kept
    names = _named("gates", of.gate_expressions) | _named("weights", traced.weights.values())
    text = printer(names | _named("state", traced.before.values()))
    after, h, o = text.compute(traced.after.values()), *text.compute([traced.hidden, traced.output])
    values = text.compute(kept.values)
    sequences = text.compute(traced.after[name] for name in kept.sequences)
    # The new state comes last: until then `state` is the old one.
    ends = (
        *_assigned("values", values), *_assigned("sequences", sequences), f"h = {h};", f"o = {o};",
        *_all_at_once("state", after),
    )  # fmt: skip
    head = (
        "void step(const V* gates, const V* weights, V* state, V* sequences, V* values, V& h, V& o)"
    )
    return _function(head, text, ends)


def _all_at_once(array: str, values: list[str]) -> list[str]:
    """Assignments whose values may be other elements of the array."""
    copies = [f"const V new_{array}_{k} = {value};" for k, value in enumerate(values)]
    return [*copies, *_assigned(array, (f"new_{array}_{k}" for k in range(len(values))))]


def _hidden(of: Derived) -> str:
    text = printer(_named("state", of.traced.before.values()))
    (h,) = text.compute([of.traced.start_hidden])
    return _function("V hidden_of(const V* state)", text, [f"return {h};"])


def _gradient(of: Derived) -> str:
    traced = of.traced
    names: dict[Expression, str] = {}
    for k, (name, part) in enumerate(traced.after.items()):
        if name in of.kept.sequences or part is traced.output:  # the frame loads no others
            names |= {part: f"after[{k}]", traced.before[name]: f"before[{k}]"}
    names |= {traced.output: "output", D_OUTPUT: "d_output", D_HIDDEN: "d_hidden"}
    names |= _named("d_state", (symbol(f"d.{name}") for name in traced.after))
    names |= _named("weights", traced.weights.values()) | _named("values", of.kept.values)
    text = printer(names)
    blocks, (carried,) = text.compute(of.blocks), text.compute([of.carried])
    before = text.compute(of.gradient.before.values())
    ends = (*_assigned("blocks", blocks), f"carried = {carried};", *_all_at_once("d_state", before))
    head = (
        "void gradient(const V* values, const V* weights, const V* after, const V* before, "
        "V output, V d_output, V d_hidden, V* d_state, V& carried, V* blocks)"
    )
    return _function(head, text, ends)


def _start_gradient(of: Derived) -> str:
    names = _named("start", of.traced.before.values()) | {D_HIDDEN: "d_hidden"}
    text = printer(names | _named("d_state", (symbol(f"d.{name}") for name in of.traced.after)))
    parts = text.compute(of.start_gradient.values())
    head = "void start_gradient(const V* start, V d_hidden, V* d_state)"
    return _function(head, text, _all_at_once("d_state", parts))
