"""What cells and layers share: the parameters of a unit, and the choices of functions."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils import parametrize

from rda.activations import Choices
from rda.checks import check_dtype, check_flag, check_size
from rda.initialisation import bias_gates_, xavier_gates_
from rda.scan.passes import Weights
from rda.units import Unit
from rda.units.known import named_unit, unit_of

Device = torch.device | str | int | None


class UnitModule(nn.Module):
    """A module that runs a unit.

    There is a group of parameters for each direction of each layer, with a suffix to its names:

        weight_ih   (inputs * hidden, features)    blocks in the order of the unit's inputs
        weight_hh   (recurrent * hidden, hidden)   blocks in the order of its recurrent gates
        bias        (inputs * hidden)              blocks as in weight_ih
        and, under their own names, the unit's own weights, (hidden) each
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool, definition: Any) -> None:
        super().__init__()
        check_size("input_size", input_size)
        check_size("hidden_size", hidden_size)
        check_flag("bias", bias)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self._define(definition)

    def _define(self, definition: Any) -> None:
        """Remember which unit this runs, in whatever form a subclass is given it."""
        raise NotImplementedError

    def _definition(self) -> tuple[Unit, str]:
        """The unit, and its key; the key is empty where the unit cannot be traced."""
        raise NotImplementedError

    def _add_group(
        self,
        suffix: str,
        input_size: int,
        bias: bool,
        device: Device,
        dtype: torch.dtype | None,
    ) -> None:
        check_dtype(dtype)
        unit, hidden_size = self._definition()[0], self.hidden_size
        rows = len(unit.inputs) * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (len(unit.recurrent) * hidden_size, hidden_size),
        }
        if bias:
            shapes["bias"] = (rows,)
        else:
            self.register_parameter("bias" + suffix, None)
        shapes |= dict.fromkeys(unit.weights, (hidden_size,))
        for name, shape in shapes.items():
            empty = torch.empty(shape, device=device, dtype=dtype)
            self.register_parameter(name + suffix, nn.Parameter(empty))

    def _group(self, suffix: str, unit: Unit) -> Weights:
        registered = self._parameters  # quicker than attributes; a parametrised one is not there
        names = [f"{name}{suffix}" for name in ("weight_ih", "bias", "weight_hh", *unit.weights)]
        found: list[Any] = [
            registered[name] if name in registered else getattr(self, name) for name in names
        ]
        return Weights(found[0], found[1], found[2], tuple(found[3:]))

    @torch.no_grad()
    def _reset_group(self, suffix: str) -> None:
        """Section 6.1 for any unit: Xavier weights for each gate, biases as the unit says."""
        unit = self._definition()[0]
        given = self._group(suffix, unit)
        assert given.input is not None
        weight_ih, weight_hh = torch.empty_like(given.input), torch.empty_like(given.recurrent)
        of_x = dict(zip(unit.inputs, weight_ih.split(self.hidden_size), strict=True))
        of_h = dict(zip(unit.recurrent, weight_hh.split(self.hidden_size), strict=True))
        xavier_gates_([(block, of_h.get(name)) for name, block in of_x.items()])
        xavier_gates_([(block, None) for name, block in of_h.items() if name not in of_x])
        self._set("weight_ih" + suffix, weight_ih)
        self._set("weight_hh" + suffix, weight_hh)
        if given.bias is not None:
            bias = torch.empty_like(given.bias)
            bias_gates_(bias, [unit.biases.get(name, 0.0) for name in unit.inputs])
            self._set("bias" + suffix, bias)
        for name, own in zip(unit.weights, given.of_units, strict=True):
            self._set(name + suffix, torch.full_like(own, unit.biases.get(name, 0.0)))

    def _set(self, name: str, value: Tensor) -> None:
        if parametrize.is_parametrized(self, name):
            setattr(self, name, value)
        else:
            getattr(self, name).copy_(value)


class Averaging(UnitModule):
    """A module that runs an RDA or RWA, with a choice of functions."""

    _default_choices = Choices()

    def _define(self, choices: Choices) -> None:
        # As attributes, so that a choice that is a module is registered as a submodule.
        self.attention = choices.attention
        self.hidden = choices.hidden
        self.output = choices.output
        self.discount = choices.discount

    @property
    def choices(self) -> Choices:
        """f_a, f_h, f_o and whether the past is discounted."""
        return Choices(self.attention, self.hidden, self.output, self.discount)

    def _definition(self, carried: bool = False) -> tuple[Unit, str]:
        kind = "RDA" if self.discount else "RWA"
        kind = f"Carried{kind}" if carried else kind
        f_a, f_h, f_o = self.attention, self.hidden, self.output
        if isinstance(f_a, str) and isinstance(f_h, str) and isinstance(f_o, str):
            return named_unit(kind, f_a, f_h, f_o)
        return unit_of(self.choices, kind)

    def _choices_repr(self) -> str:
        default, mine = type(self)._default_choices, self.choices
        different = (
            f", {name}={_shown(getattr(mine, name))}"
            for name in ("attention", "hidden", "output")
            if getattr(mine, name) != getattr(default, name)
        )
        return "".join(different)


def record_call(module: nn.Module, input: Proxy, *arguments: Any, **options: Any) -> Any:
    """The call as one node of a torch.fx graph. torch.fx does this by itself for torch.nn only."""
    tracer: Any = input.tracer
    path = tracer.path_of_module(module)
    if not path:
        raise TypeError(f"{type(module).__name__}: torch.fx should trace a model that contains it")
    given = {name: value for name, value in options.items() if value is not None}
    return tracer.create_proxy("call_module", path, (input, *arguments), given)


def _shown(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    return getattr(choice, "__name__", type(choice).__name__)
