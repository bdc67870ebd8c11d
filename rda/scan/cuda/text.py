"""A unit's step and its gradients as CUDA for the GPU engines' frames.

functions.cu says what the frames expect of a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rda.symbolic import functions
from rda.symbolic.cuda import (
    Statements,
    SumText,
    function,
    held,
    identifier,
    indented,
    mentions,
    number,
    struct,
    with_slopes_of_arguments,
)
from rda.symbolic.expressions import (
    ADD,
    Expression,
    in_order,
    is_number,
    symbol,
    symbols_in,
)
from rda.symbolic.gradient import D_HIDDEN, D_OUTPUT, in_two_parts

if TYPE_CHECKING:
    from rda.symbolic.derived import Derived


class Field(NamedTuple):
    """A pointer in UnitForward or UnitBackward, or an array of pointers."""

    kind: str
    name: str
    array: str = ""
    """What there is one of for each element: a key of `Layout.counts`. Empty: a single pointer."""


FORWARD = (
    Field("const float*", "start", "states"),  # null: the unit's own
    Field("float*", "state", "states"),
    Field("const float*", "weights", "weights"),
    Field("Stored*", "output"),
    Field("Stored*", "saved"),  # this and what follows is null where there is no backward pass
    Field("Stored*", "extra"),
    Field("Stored*", "sequences", "sequences"),
)
BACKWARD = (
    Field("const float*", "d_final", "states"),  # null: zeros
    Field("const float*", "start", "states"),
    Field("const float*", "weights", "weights"),
    Field("const Stored*", "d_output"),
    Field("const Stored*", "output"),
    Field("const Stored*", "saved"),
    Field("const Stored*", "extra"),
    Field("const Stored*", "sequences", "sequences"),
    Field("Stored*", "d_blocks"),
    Field("float*", "d_start", "states"),
)

PLACE = "const long long place = row * (long long)H + unit;"
PLACE_IN_TIME = "const long long place = (t * (long long)batch + row) * H + unit;"


class Slot(NamedTuple):
    """Where a kept value is: in the place of a projection, or in a tensor of its own."""

    tensor: str
    place: int


class Layout:
    """How a unit's values are named, and where they are in memory."""

    def __init__(self, of: Derived, precision: str) -> None:
        traced, gates = of.traced, of.gates
        self.of, self.precision = of, precision
        self.is_compensated = precision == "fp32"
        self.inputs = len(gates.x_only) + len(gates.both)
        self.gates = len(gates.both) + len(gates.h_only)
        self.sums = {part.name for part in of.unit.parts if part.is_sum}
        self.parts = {name: identifier("s", name, k) for k, name in enumerate(traced.before)}
        """The members of Unit that hold the state."""
        weights = enumerate(traced.weights.items())
        self.weights = {each: identifier("w", name, k) for k, (name, each) in weights}
        """The members that hold the unit's own weights."""

    @property
    def counts(self) -> dict[str, int]:
        """The lengths of the arrays in the structs; C++ has no empty ones."""
        weights, sequences = len(self.weights), len(self.of.kept.sequences)
        counts = {"states": len(self.parts), "weights": weights, "sequences": sequences}
        return {name: max(count, 1) for name, count in counts.items()}

    @property
    def planes(self) -> int:
        """The most float32 values that are carried from step to step in either pass.

        Backward that is a gradient for each part of the state, and one for what h gets both
        through the gates and past them.
        """
        rests = len(self.sums) if self.is_compensated else 0
        return len(self.parts) + max(rests, 1)

    @cached_property
    def slots(self) -> dict[Expression, Slot]:
        """Kept values take the place of the projections, which a step has read by then."""
        x, x_only, values = self.of.traced.x, self.of.gates.x_only, self.of.kept.values
        own = {x[name]: Slot("saved", k) for k, name in enumerate(x_only) if x[name] in values}
        free = [Slot("saved", k) for k in range(self.inputs)]
        free = [slot for slot in free if slot not in own.values()]
        free += [Slot("extra", k) for k in range(len(values))]
        others = [each for each in values if each not in own]
        return own | dict(zip(others, free, strict=False))

    @property
    def stored(self) -> list[Expression]:
        """The values that a step writes. One that is a projection is there already."""
        return [each for each in self.of.kept.values if each not in self.of.traced.x.values()]

    @property
    def extra(self) -> int:
        """How many values have no room in place of the projections."""
        return sum(slot.tensor == "extra" for slot in self.slots.values())

    def tensors(self, slots: Iterable[Slot], constant: str = "") -> list[str]:
        """Pointers to this unit's values of a step in the tensors of these slots."""
        widths = {"saved": "INPUTS", "extra": str(self.extra)}
        return [
            f"{constant}Stored* {tensor} = "
            f"at.{tensor} + (t * (long long)batch + row) * {widths[tensor]} * H + unit;"
            for tensor in dict.fromkeys(slot.tensor for slot in slots)
        ]

    def kind(self, name: str) -> str:
        """The type of a part of the state."""
        return "Sum" if self.is_compensated and name in self.sums else "float"

    def sum_text(self, name: str, variable: str) -> SumText:
        return SumText.of(variable, self.kind(name) == "Sum")

    def in_full(
        self, results: Iterable[Expression], known: Iterable[Expression]
    ) -> list[Expression]:
        """The results, with slopes of tanh that have digits in bf16 too where it is possible."""
        results = list(results)
        return with_slopes_of_arguments(results, known) if self.precision == "bf16" else results

    def prepare(self, structure: str, weights: Mapping[Expression, str]) -> str:
        places = list(self.weights)
        lines = (
            f"{name} = {held(f'(active ? at.weights[{places.index(each)}][unit] : 0.0f)')};"
            for each, name in weights.items()
        )
        return function("void", f"prepare(const {structure}& at, bool active, int unit)", lines)

    def fields(self, fields: Iterable[Field]) -> dict[str, int]:
        """The names of pointers, with their number where they are an array."""
        return {field.name: self.counts[field.array] if field.array else 0 for field in fields}

    def structure(self, name: str, fields: Iterable[Field]) -> str:
        sizes = zip(fields, self.fields(fields).values(), strict=True)
        lines = (f"{of.kind} {of.name}{f'[{size}]' if size else ''};" for of, size in sizes)
        return struct(name, indented(lines))


def unit_text(of: Derived, precision: str) -> str:
    """What the frames expect of a unit, in CUDA for one precision."""
    layout = Layout(of, precision)
    return "".join((
        f"// The unit {type(of.unit).__name__}, written from its definition by text.py.\n\n",
        f"#define GATES {layout.gates}\n#define INPUTS {layout.inputs}\n\n",
        layout.structure("UnitForward", FORWARD), _Forward(layout).text(),
        layout.structure("UnitBackward", BACKWARD), _Backward(layout).text(),
    ))  # fmt: skip


class _Forward:
    """Kept and Unit."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.of, self.traced = layout, layout.of, layout.of.traced
        self.parts = layout.parts
        self.old = {name: identifier("old", name, k) for k, name in enumerate(self.parts)}
        """Members that hold the state before the step, where something needs it after the step."""
        parts, h = self.traced.before.items(), self.traced.start_hidden
        same = [layout.sum_text(name, self.parts[name]) for name, part in parts if part is h]
        self.h = same[0].as_number if same else "h"
        """The part of the state that is h, or a member of its own."""
        self.first, self.rest = self._division()

    def _division(self) -> tuple[list[str], list[str]]:
        """The parts of the state that a step computes, and those that can wait."""
        traced, kept = self.traced, self.of.kept
        sequences = (traced.after[name] for name in kept.sequences)
        needed = {*in_order([traced.hidden, traced.output, *sequences, *kept.values])}
        in_h = {*symbols_in([self.traced.start_hidden])}
        first = [
            name for name, part in traced.after.items() if part in needed or f"s.{name}" in in_h
        ]
        return first, [name for name in traced.after if name not in first]

    @cached_property
    def gates(self) -> dict[Expression, tuple[str, str]]:
        """For each gate before its non-linearity: its member, and what it is read from."""
        x_only, both, h_only = self.of.gates
        x = [f"x[{k}]" for k in range(len(x_only) + len(both))]
        h = [f"recurrent[{k}]" for k in range(len(both) + len(h_only))]
        members = [
            *(identifier("x", name, k) for k, name in enumerate(x_only)),
            *(identifier("gate", name, k) for k, name in enumerate(both)),
            *(identifier("h", name, k) for k, name in enumerate(h_only)),
        ]
        of_both = zip(x[len(x_only) :], h[: len(both)], strict=True)
        sources = [*x[: len(x_only)], *(f"{a} + {b}" for a, b in of_both), *h[len(both) :]]
        pairs = zip(members, sources, strict=True)
        return dict(zip(self.of.gate_expressions, pairs, strict=True))

    def text(self) -> str:
        layout, traced = self.layout, self.traced
        # A sum that h or the output needs has to be exact in the step itself.
        hasty = None if layout.sums.intersection(self.first) else self._hasty()
        step = self._statements(self.parts, "v", self._gates_and_weights, hasty=hasty)
        step.compute(traced.after[name] for name in self.first)

        known, sums = self._known_after(step)
        later = self.old | {name: self.parts[name] for name in self.rest}
        output, values, carry_on = (
            self._statements(state, "v_", known, sums, shared=step.shared_variables)
            for state in (self.old, self.old, later)
        )
        (o,) = output.compute(layout.in_full([traced.output], output.names))
        kept = values.compute(layout.in_full(layout.stored, values.names))
        carry_on.compute(traced.after[name] for name in self.rest)
        new = [self._result(carry_on, name) for name in self.rest]

        lines = [*output.lines, o, *values.lines, *kept, *carry_on.lines, *new]
        old = {name: member for name, member in self.old.items() if mentions(lines, member)}
        members = [
            *(f"float {member};" for member, _ in self.gates.values()),
            *(f"float {member};" for member in layout.weights.values()),
            *(f"{layout.kind(name)} {member};" for name, member in old.items()),
            *step.members,
            *(["float h;"] if self.h == "h" else []),
        ]
        stepped = [
            *(f"{member} = {source};" for member, source in self.gates.values()),
            *(f"{member} = {self.parts[name]};" for name, member in old.items()),
            *step.lines,
            *self._replaced(self.first, step, "running"),
            *self._hidden(),
        ]
        in_kept = (f"{layout.kind(name)} {member};" for name, member in self.parts.items())
        return struct("Kept", indented(in_kept)) + struct(
            "Unit : Kept",
            indented(members),
            layout.prepare("UnitForward", layout.weights),
            self._start(),
            function("float", "hidden() const", [f"return {self.h};"]),
            function(
                "void",
                "step(const float x[INPUTS], const float recurrent[GATES], bool running)",
                stepped,
            ),
            function("void", "carry_on()", [*carry_on.lines, *self._replaced(self.rest, carry_on)]),
            function("float", "output() const", [*output.lines, f"return {o};"]),
            self._values(values.lines, kept),
            self._record(),
            self._finish(),
        )

    @property
    def _gates_and_weights(self) -> dict[Expression, str]:
        gates = {each: member for each, (member, _) in self.gates.items()}
        return gates | self.layout.weights

    def _statements(
        self,
        state: Mapping[str, str],
        prefix: str,
        names: Mapping[Expression, str],
        sums: Mapping[Expression, SumText] | None = None,
        *,
        hasty: Iterable[Expression] | None = None,
        shared: Mapping[tuple[str, Expression], str] | None = None,
    ) -> Statements:
        """Statements on the state before the step, which is in these members."""
        layout, before = self.layout, self.traced.before
        texts = {name: layout.sum_text(name, member) for name, member in state.items()}
        numbers = {before[name]: text.as_number for name, text in texts.items()}
        of_state = {before[name]: texts[name] for name in texts if name in layout.sums}
        return Statements(
            {**names, **numbers}, prefix, {**(sums or {}), **of_state},
            is_compensated=layout.is_compensated, are_members=prefix == "v",
            hasty=hasty, shared=shared,
        )  # fmt: skip

    def _hasty(self) -> set[Expression]:
        """The logarithms that are only added to sums: the step computes them quickly, and carry_on
        again for the sum itself."""
        traced = self.traced
        computed = in_order((*traced.after.values(), traced.output, *self.of.kept.values))
        sums = {traced.before[name] for name in self.layout.sums}
        for each in computed:
            if each.function is ADD and sums.intersection(each.arguments):
                sums.add(each)
        terms = [each for each in computed if each.function is functions.log_sigmoid]
        users = {term: {each for each in computed if term in each.arguments} for term in terms}
        return {term for term in terms if users[term] and users[term] <= sums}

    def _known_after(
        self, step: Statements
    ) -> tuple[dict[Expression, str], dict[Expression, SumText]]:
        """What later functions can use of a step: not what was computed hastily."""
        layout, after = self.layout, self.traced.after
        hasty = {*step.sums, *step.hasty} if step.hasty is not None else set()
        known = {each: name for each, name in step.names.items() if each not in hasty}
        sums = {each: text for each, text in step.sums.items() if each not in hasty}
        new = {name: layout.sum_text(name, self.parts[name]) for name in self.first}
        known |= {after[name]: text.as_number for name, text in new.items()}
        sums |= {after[name]: text for name, text in new.items() if name in layout.sums}
        return known | {self.traced.hidden: self.h}, sums

    def _result(self, statements: Statements, name: str) -> str:
        """The new value of a part of the state."""
        after = self.traced.after[name]
        if self.layout.kind(name) == "float":
            return statements.names[after]
        found = statements.sums.get(after)
        return found.whole if found else f"Sum{{{statements.names[after]}, 0.0f}}"

    def _replaced(self, names: list[str], statements: Statements, condition: str = "") -> list[str]:
        """Parts of the state become new, all at once: one may be the old value of another."""
        copies, assignments = [], []
        for k, name in enumerate(names):
            new, member = identifier("new", name, k), self.parts[name]
            copies.append(
                f"const {self.layout.kind(name)} {new} = {self._result(statements, name)};"
            )
            chosen = f"{condition} ? {new} : {member}" if condition else new
            assignments.append(f"{member} = {chosen};")
        return copies + assignments

    def _hidden(self) -> list[str]:
        """h from the new state, which in a row that has ended is the old one."""
        if self.h != "h":
            return []
        statements = self._statements(self.parts, "v_", {})
        (h,) = statements.compute([self.traced.start_hidden])
        return [*statements.lines, f"h = {h};"]

    def _start(self) -> str:
        lines = [PLACE]
        for k, part in enumerate(self.of.unit.parts):
            given = f"active && at.start[{k}] ? at.start[{k}][place]"
            value = held(f"({given} : {number(part.start)})")
            is_pair = self.layout.kind(part.name) == "Sum"
            value = f"Sum{{{value}, 0.0f}}" if is_pair else value
            lines.append(f"{self.parts[part.name]} = {value};")
        head = "start(const UnitForward& at, bool active, int row, int unit)"
        return function("void", head, [*lines, *self._hidden()])

    def _values(self, lines: list[str], names: list[str]) -> str:
        if not names:
            return ""
        ends = (f"kept[{k}] = {name};" for k, name in enumerate(names))
        return function("void", f"values(float (&kept)[{len(names)}]) const", [*lines, *ends])

    def _record(self) -> str:
        layout, stored = self.layout, self.layout.stored

        def store(place: str, value: str) -> str:
            return f"store<WIDE>({place}, [&](int k) {{ return {value}; }});"

        lines = [
            "if (!active) return;",
            PLACE_IN_TIME,
            store("at.output + place", "running ? of[k].output() : 0.0f"),
            "if (!at.saved) return;",
        ]
        for k, name in enumerate(self.of.kept.sequences):
            part = layout.sum_text(name, f"of[k].{self.parts[name]}").as_number
            lines.append(store(f"at.sequences[{k}] + place", f"running ? {part} : 0.0f"))
        if stored:
            lines += [
                f"float values[WIDE][{len(stored)}];",
                "#pragma unroll",
                "for (int k = 0; k < WIDE; ++k) of[k].values(values[k]);",
                *layout.tensors(layout.slots[each] for each in stored),
            ]
        for k, each in enumerate(stored):
            tensor, place = layout.slots[each]
            lines.append(store(f"{tensor} + {place} * H", f"values[k][{k}]"))
        head = (
            "record(const Unit (&of)[WIDE], const UnitForward& at, bool active, bool running, "
            "int t, int batch, int row, int unit)"
        )
        return function("template static void", head, lines)

    def _finish(self) -> str:
        texts = (self.layout.sum_text(name, member) for name, member in self.parts.items())
        lines = (f"at.state[{k}][place] = {text.as_number};" for k, text in enumerate(texts))
        head = "finish(const UnitForward& at, bool active, int row, int unit) const"
        return function("void", head, ["if (!active) return;", PLACE, *lines])


class _Backward:
    """GradientKept and UnitGradient."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.of, self.traced = layout, layout.of, layout.of.traced
        parts = enumerate(self.traced.after)
        hidden = self.traced.hidden_part
        self.parts = {name: identifier("d_part", name, k) for k, name in parts if name != hidden}
        """The members with the gradient of the state; that of h comes from the frame."""
        self.carried = [] if is_number(self.of.carried, 0) else [self.of.carried]
        """The gradient that reaches the h before past the gates, if there is one."""

    @cached_property
    def readable(self) -> dict[Expression, tuple[str, str]]:
        """What a step can read: the name of its field, and how it is loaded."""
        traced, kept = self.traced, self.of.kept
        found = {
            D_OUTPUT: ("d_output", "load<WIDE>(at.d_output + place)"),
            traced.output: ("output", "load<WIDE>(at.output + place)"),
        }
        for k, part in enumerate(self.of.unit.parts):
            after = traced.after[part.name]
            if part.name in kept.sequences:
                sequence = f"at.sequences[{kept.sequences.index(part.name)}]"
                load = f"load<WIDE>({sequence} + place)"
                found[after] = identifier("after", part.name, k), load
            elif after is traced.output:
                sequence = "at.output"
            else:
                continue
            where = f"{sequence}, at.start[{k}], before, length, batch, row, unit"
            load = f"load_before<WIDE>({where}, {number(part.start)})"
            found[traced.before[part.name]] = identifier("before", part.name, k), load
        for k, each in enumerate(kept.values):
            tensor, place = self.layout.slots[each]
            found[each] = f"value_{k}", f"load<WIDE>({tensor} + {place} * H)"
        return found

    def text(self) -> str:
        of, layout, parts = self.of, self.layout, self.parts
        names = {each: f"of.{field}[k]" for each, (field, _) in self.readable.items()}
        names |= layout.weights
        before = [of.gradient.before[name] for name in parts]
        wanted = layout.in_full([*of.blocks, *self.carried, *before], names)
        results, factors = in_two_parts(wanted)
        factors = [each for each in factors if each not in layout.weights]
        early = Statements(names)
        kinds, made = early.held(factors)
        known = {each: f"of.factor_{k}" for k, each in enumerate(factors)}
        known |= {D_HIDDEN: "d_hidden", **layout.weights}
        known |= {symbol(f"d.{name}"): member for name, member in parts.items()}
        step = Statements(known)
        computed = step.compute(results)
        blocks, new = computed[: len(of.blocks)], computed[len(of.blocks) :]
        past, new = new[: len(self.carried)], new[len(self.carried) :]

        lines = [*early.lines, *made]
        fetched = [each for each in self.readable if mentions(lines, names[each])]
        lines += [*step.lines, *computed]
        weights = {each: name for each, name in layout.weights.items() if mentions(lines, name)}
        stepped = [
            *step.lines,
            *(f"d[{k}] = running ? {value} : 0.0f;" for k, value in enumerate(blocks)),
            *(f"d_gates[{k}] = d[{len(of.gates.x_only) + k}];" for k in range(layout.gates)),
            *(f"past_gates = {value};" for value in past),
            *(f"const float new_{k} = {value};" for k, value in enumerate(new)),
            *(f"{part} = running ? new_{k} : {part};" for k, part in enumerate(parts.values())),
        ]
        in_kept = [*parts.values(), *("past_gates" for _ in past)]
        members = [
            f"float d[{len(of.blocks)}];",
            *(f"float {name};" for name in weights.values()),
            *(["float d_last;"] if self.traced.hidden_part else []),
        ]
        last = "d_last" if self.traced.hidden_part else "0.0f"
        fields = ", ".join(self.readable[each][0] for each in fetched)
        values = f"struct Values {{\n    Neighbours<WIDE> {fields};\n  }};"
        in_factors = (f"{kind} factor_{k};" for k, kind in enumerate(kinds))
        return struct("GradientKept", indented(f"float {name};" for name in in_kept)) + struct(
            "UnitGradient : GradientKept",
            indented(members),
            f"\n  template <int WIDE>\n  {values}\n\n",
            f"  struct Factors {{\n{indented(in_factors, 4)}  }};\n",
            layout.prepare("UnitBackward", weights),
            self._start(),
            function("float", "first() const", [f"return {last};"]),
            function("float", "carried() const", [f"return {'past_gates' if past else '0.0f'};"]),
            self._fetch(fetched),
            function(
                "template Factors",
                "factors(const Values<WIDE>& of, int k) const",
                [*early.lines, f"return {{{', '.join(made)}}};"],
            ),
            function(
                "void",
                "step(const Factors& of, float d_hidden, bool running, float d_gates[GATES])",
                stepped,
            ),
            self._record(),
            self._finish(),
        )

    def _start(self) -> str:
        lines = [PLACE]
        for k, name in enumerate(self.traced.after):
            value = f"(active && at.d_final[{k}] ? at.d_final[{k}][place] : 0.0f)"
            lines.append(f"{self.parts.get(name, 'd_last')} = {held(value)};")
        lines += ["past_gates = 0.0f;" for _ in self.carried]
        head = "start(const UnitBackward& at, bool active, int row, int unit)"
        return function("void", head, lines)

    def _fetch(self, fetched: list[Expression]) -> str:
        slots = (self.layout.slots[each] for each in fetched if each in self.layout.slots)
        lines = [PLACE_IN_TIME]
        lines += self.layout.tensors(slots, "const ")
        # A condition for each: as a block, the loads took two registers more than there are.
        for each in fetched:
            field, load = self.readable[each]
            lines.append(f"if (wanted) of.{field} = {load}; else of.{field} = {{}};")
        head = (
            "fetch(Values<WIDE>& of, const UnitBackward& at, bool wanted, int t, int before, "
            "int length, int batch, int row, int unit)"
        )
        return function("template static void", head, lines)

    def _record(self) -> str:
        count = len(self.of.blocks)
        lines = [
            "if (!active) return;",
            f"Stored* blocks = at.d_blocks + (t * (long long)batch + row) * {count} * H + unit;",
            "#pragma unroll",
            f"for (int j = 0; j < {count}; ++j) "
            "store<WIDE>(blocks + j * H, [&](int k) { return of[k].d[j]; });",
        ]
        head = (
            "record(const UnitGradient (&of)[WIDE], const UnitBackward& at, bool active, int t, "
            "int batch, int row, int unit)"
        )
        return function("template static void", head, lines)

    def _finish(self) -> str:
        before = self.traced.before
        names = {D_HIDDEN: "d_hidden"}
        names |= {symbol(f"d.{name}"): member for name, member in self.parts.items()}
        for k, part in enumerate(self.of.unit.parts):
            start = f"(at.start[{k}] ? at.start[{k}][place] : {number(part.start)})"
            names[before[part.name]] = start
        end = Statements(names)
        d_start = end.compute(self.layout.in_full(self.of.start_gradient.values(), names))
        lines = ["if (!active) return;", PLACE, *end.lines]
        lines += [f"at.d_start[{k}][place] = {part};" for k, part in enumerate(d_start)]
        head = (
            "finish(const UnitBackward& at, bool active, float d_hidden, int row, int unit) const"
        )
        return function("void", head, lines)
