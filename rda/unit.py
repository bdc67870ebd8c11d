"""What cells and layers share: the choices of functions, and the parameters."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils import parametrize

from rda.activations import Choices
from rda.checks import check_dtype, check_flag, check_size
from rda.initialisation import bias_gates_, xavier_gates_

Device = torch.device | str | int | None


class UnitModule(nn.Module):
    """A module that runs the equations with one set of choices.

    There is a group of parameters for each direction of each layer, with a suffix to its names:

        weight_ih   (4 * hidden, input)    blocks u, g, a, gamma
        weight_hh   (3 * hidden, hidden)   blocks g, a, gamma
        bias        (4 * hidden)           blocks u, g, a, gamma

    Without a discount (RWA) there are no gamma blocks.
    """

    _default_choices = Choices()

    def __init__(self, input_size: int, hidden_size: int, bias: bool, choices: Choices) -> None:
        super().__init__()
        check_size("input_size", input_size)
        check_size("hidden_size", hidden_size)
        check_flag("bias", bias)
        self.input_size = input_size
        self.hidden_size = hidden_size
        # As attributes, so that a choice that is a module is registered as a submodule.
        self.attention = choices.attention
        self.hidden = choices.hidden
        self.output = choices.output
        self.discount = choices.discount

    @property
    def choices(self) -> Choices:
        """f_a, f_h, f_o and whether the past is discounted."""
        return Choices(self.attention, self.hidden, self.output, self.discount)

    def _add_group(
        self,
        suffix: str,
        input_size: int,
        bias: bool,
        device: Device,
        dtype: torch.dtype | None,
    ) -> None:
        check_dtype(dtype)
        choices, hidden_size = self.choices, self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (choices.input_blocks * hidden_size, input_size),
            "weight_hh": (choices.recurrent_blocks * hidden_size, hidden_size),
        }
        if bias:
            shapes["bias"] = (choices.input_blocks * hidden_size,)
        else:
            self.register_parameter("bias" + suffix, None)
        for name, shape in shapes.items():
            empty = torch.empty(shape, device=device, dtype=dtype)
            self.register_parameter(name + suffix, nn.Parameter(empty))

    def _group(self, suffix: str) -> tuple[Tensor, Tensor, Tensor | None]:
        weight_ih, weight_hh, bias = (
            getattr(self, name + suffix) for name in ("weight_ih", "weight_hh", "bias")
        )
        return weight_ih, weight_hh, bias

    @torch.no_grad()
    def _reset_group(self, suffix: str) -> None:
        weight_ih, weight_hh, bias = (
            None if tensor is None else torch.empty_like(tensor) for tensor in self._group(suffix)
        )
        assert weight_ih is not None and weight_hh is not None  # noqa: PT018
        u, *gated = weight_ih.split(self.hidden_size)
        recurrent = weight_hh.split(self.hidden_size)
        xavier_gates_([(u, None), *zip(gated, recurrent, strict=True)])
        if bias is not None:
            bias_gates_(bias, (0, 0, 0, 1) if self.discount else (0, 0, 0))
        for name, value in (("weight_ih", weight_ih), ("weight_hh", weight_hh), ("bias", bias)):
            if value is not None:
                self._set(name + suffix, value)

    def _set(self, name: str, value: Tensor) -> None:
        if parametrize.is_parametrized(self, name):
            setattr(self, name, value)
        else:
            getattr(self, name).copy_(value)

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
