"""One step of a unit as a module, as nn.LSTMCell is for nn.LSTM."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from rda.activations import Activation, AttentionName, Choices, OutputName
from rda.checks import check_input, check_state
from rda.equations import LogState, output
from rda.modules import Averaging, Device, record_call
from rda.precision import autocast_off, compute_dtype, in_dtype, state_dtype
from rda.repeated import kernel_of, look_of, remember
from rda.scan import op
from rda.scan.dispatch import choose, scan_layer
from rda.scan.engines import Work
from rda.scan.passes import Call, Kernel
from rda.scan.tracing import is_differentiated
from rda.state import State, from_log, to_log


class _Cell(Averaging):
    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        device: Device,
        dtype: torch.dtype | None,
        choices: Choices,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, choices)
        self._add_group("", input_size, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Section 6.1: Xavier weights for each gate, biases 0, except 1 for the discount gate."""
        self._reset_group("")

    def forward(self, input: Tensor, state: tuple[Tensor, Tensor] | None = None) -> State:
        """The state after one step.

        Args:
            input: (batch, input_size), or (input_size) without a batch.
            state: (average, weight), each (batch, hidden_size) or (hidden_size). None means no
                history.
        """
        if isinstance(input, Proxy):
            return record_call(self, input, state)
        # NVIDIA's GPUs may keep states in bfloat16, too coarse for the weight of an average.
        carried = not (isinstance(input, Tensor) and input.is_cuda)
        unit, key = self._definition(carried)
        weights = self._group("", unit)
        look = look_of(key, input, weights, state)
        kernel = kernel_of(look)
        if kernel is not None:
            call = Call(unit, key, input.unsqueeze(0), weights, state or (), None, False)
            return _quickly(kernel, call)
        check_input(input, self.weight_ih, (1, 2), type(self).__name__)
        dtype = compute_dtype(input, self.weight_ih)
        start = self._start(input, state, dtype)
        with autocast_off(input):
            x = in_dtype(input, dtype).view(1, -1, self.input_size)
            start = start if carried or not start else to_log(State(*start), start[0].dtype)
            call = Call(unit, key, x, weights, start, None, False).in_dtype(dtype)
            engine = choose("auto", Work.of(call))
            _, *parts = scan_layer(call, engine, is_chosen=True)
            remember(look, engine, key, dtype)
            shape = (*input.shape[:-1], self.hidden_size)
            own = [part.view(shape).clone() for part in parts]  # not views of others
            of_average = dtype if state is None else state[0].dtype
            if not carried:
                return from_log(LogState(*own), of_average)
            return State(in_dtype(own[0], of_average), own[1])

    if TYPE_CHECKING:
        __call__ = forward

    def readout(self, state: tuple[Tensor, Tensor]) -> Tensor:
        """RDA.output: o_t = f_o(h_t) of a state, the output of a layer at that step."""
        average, weight = state[0], self.weight_ih
        # torch.fx traces without values, so it cannot ask for autocast on the state's device.
        traced = isinstance(average, Proxy)
        dtype = weight.dtype if traced else compute_dtype(average, weight)
        return output(self.choices.f_h(average), self.choices).to(dtype)

    def _start(
        self, input: Tensor, state: tuple[Tensor, Tensor] | None, dtype: torch.dtype
    ) -> tuple[Tensor, ...]:
        """Each part of a state as (batch, hidden_size); empty for no history."""
        if state is None:
            return ()
        shape, owner = (*input.shape[:-1], self.hidden_size), type(self).__name__
        checked = check_state(state, State._fields, shape, dtype, input.device, owner)
        batched = checked if input.dim() == 2 else [part.unsqueeze(0) for part in checked]
        return tuple([in_dtype(part, state_dtype(dtype)) for part in batched])

    def extra_repr(self) -> str:
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}{self._choices_repr()}"


def _quickly(kernel: Kernel, call: Call) -> State:
    """A step like an earlier one; the call's input is the cell's with one dimension more."""
    has_batch = call.input.dim() == 3
    if not has_batch:
        start = tuple([part.unsqueeze(0) for part in call.start])
        call = call._replace(input=call.input.unsqueeze(0), start=start)
    if is_differentiated(call.tensors):
        _, average, weight = op.scan(call, "cpu", "fp32")
    else:
        average, weight = kernel.forward(call, keep=False).state
    for part in average, weight:  # in place, because a view could not be changed in place
        part.squeeze_(0)
        if not has_batch:
            part.squeeze_(0)
    return State(average, weight)


class RDACell(_Cell):
    r"""One step of the Recurrent Discounted Attention unit (section 5).

        z_t = u_t * tanh(g_t)                             features
        a_t = f_a(W_a . [x_t, h_{t-1}] + b_a)             attention
        gamma_t = sigma(W_gamma . [x_t, h_{t-1}] + b_gamma)   discount
        h_t = f_h(n_t / d_t)                              average, with
        n_t = n_{t-1} gamma_t + z_t a_t,  d_t = d_{t-1} gamma_t + a_t

    It is called like nn.LSTMCell: `average, weight = cell(input, (average, weight))`. The output
    of the unit at that step, f_o(h_t), is `cell.readout(state)`. Arguments and parameters are those
    of `rda.RDA` with one layer.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        attention: AttentionName | Activation = "exp",
        hidden: OutputName | Activation = "identity",
        output: OutputName | Activation = "tanh",
    ) -> None:
        choices = Choices(attention, hidden, output)
        super().__init__(input_size, hidden_size, bias, device, dtype, choices)


class RWACell(_Cell):
    """One step of the Recurrent Weighted Average (section 3): exp, tanh, identity, no discount.

    It is called like `RDACell`.
    """

    _default_choices = Choices("exp", "tanh", "identity", discount=False)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype, self._default_choices)
