"""The paper's baselines: torch's LSTM and GRU with section 6.1's initialisation.

On a GPU that can, they run in our own engine; elsewhere in torch's.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rda.checks import check_flag
from rda.initialisation import bias_gates_, xavier_gates_
from rda.names import look_up
from rda.scan.cuda import gated
from rda.scan.cuda.onchip import obstacle, product_for


class _Baseline(nn.RNNBase):
    """Initialisation and a learned start for a recurrent layer of torch's."""

    weight_hh_l0: nn.Parameter
    _learned_names: tuple[str, ...]
    _forget_gate: int | None
    _gates: int

    def __init__(
        self,
        *args: Any,
        learn_initial_state: bool = False,
        engine: str = "auto",
        **options: Any,
    ) -> None:
        check_flag("learn_initial_state", learn_initial_state)
        look_up("engine", engine, dict.fromkeys(("auto", "torch")))
        self.engine = engine
        super().__init__(*args, **options)
        self.learn_initial_state = learn_initial_state
        if learn_initial_state:
            weight = self.weight_hh_l0
            rows = self.num_layers * (2 if self.bidirectional else 1)
            for name in self._learned_names:
                units = self.hidden_size if name == "initial_cell" else weight.shape[1]
                start = torch.zeros((rows, units), device=weight.device, dtype=weight.dtype)
                self.register_parameter(name, nn.Parameter(start))

    def reset_parameters(self) -> None:
        """Section 6.1: Xavier weights for each gate, biases 0, the forget gate's 1."""
        for weight_ih, weight_hh, *others in self.all_weights:
            rows = weight_ih.shape[0] // self._gates
            blocks = zip(
                weight_ih.detach().split(rows), weight_hh.detach().split(rows), strict=True
            )
            xavier_gates_(list(blocks))
            biases = [other.detach() for other in others if other.dim() == 1]
            # torch adds two biases, so the forget gate's 1 stands in the first alone.
            for bias, open_gate in zip(biases, (self._forget_gate, None), strict=False):
                bias_gates_(bias, rows, open_gate)
            xavier_gates_([(other.detach(), None) for other in others if other.dim() == 2])
        for name in self._learned_names:
            if hasattr(self, name):
                nn.init.zeros_(getattr(self, name))

    def _learned_start(self, input: Tensor | PackedSequence) -> list[Tensor]:
        starts = [getattr(self, name) for name in self._learned_names]
        if isinstance(input, Tensor) and input.dim() != 3:
            return starts
        if isinstance(input, PackedSequence):
            batch = int(input.batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return [start.unsqueeze(1).expand(-1, batch, -1).contiguous() for start in starts]

    def _on_chip(self, input: Any) -> bool:
        """Whether our own GPU engine runs this instead of cuDNN: same weights, same results."""
        if self.engine == "torch" or not isinstance(input, Tensor) or input.dim() != 3:
            return False
        idle = self.num_layers == 1 or self.dropout == 0 or not self.training
        plain = self.proj_size == 0 and idle and not torch.compiler.is_compiling()
        if not plain or input.dtype != torch.float32 or torch.is_autocast_enabled("cuda"):
            return False
        return input.shape[0] > 0 and obstacle(input, self.hidden_size) is None

    def engine_for(self, input: Tensor) -> str:
        """What runs this layer on such an input."""
        if self._on_chip(input):
            return "cuda"
        return "cuDNN" if input.is_cuda and torch.backends.cudnn.enabled else "torch.nn"

    def _states(self, input: Tensor, hx: Any, count: int) -> list[Tensor]:
        """The start of each state, checked as torch does."""
        batch = input.shape[0 if self.batch_first else 1]
        if hx is None:
            rows = self.num_layers * (2 if self.bidirectional else 1)
            return [input.new_zeros(rows, batch, self.hidden_size)] * count
        self.check_forward_args(input, hx, None)
        return [hx] if count == 1 else list(hx)

    def _layers_on_chip(self, input: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """All layers and directions; `states` and the result are (rows, batch, hidden) each."""
        sequence = input.transpose(0, 1) if self.batch_first else input
        product = product_for(input, self.hidden_size)
        directions = 2 if self.bidirectional else 1
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            sequence = sequence.contiguous()
            for direction in range(directions):
                k = layer * directions + direction
                start = [state[k].contiguous() for state in states]
                output, *final = self._direction_on_chip(
                    sequence, start, self.all_weights[k], direction == 1, product
                )
                outputs.append(output)
                finals.append(final)
            sequence = outputs[0] if directions == 1 else torch.cat(outputs, dim=-1)
        output = sequence.transpose(0, 1) if self.batch_first else sequence
        return output, [torch.stack(parts) for parts in zip(*finals, strict=True)]

    def _direction_on_chip(
        self,
        input: Tensor,
        start: list[Tensor],
        weights: list[nn.Parameter],
        reverse: bool,
        product: str,
    ) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        learned = ", learn_initial_state=True" if self.learn_initial_state else ""
        return super().extra_repr() + learned


class LSTM(_Baseline, nn.LSTM):
    """torch.nn.LSTM, initialised as in section 6.1.

    With `learn_initial_state`, (h, c) start from the parameters `initial_hidden` and
    `initial_cell`, (num_layers * directions, hidden_size), wherever no state is given.
    """

    _learned_names = ("initial_hidden", "initial_cell")
    _forget_gate = 1
    _gates = 4

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is None and self.learn_initial_state:
            hx = tuple(self._learned_start(input))
        if not self._on_chip(input):
            return super().forward(input, hx)
        output, (h, c) = self._layers_on_chip(input, self._states(input, hx, 2))
        return output, (h, c)

    def _direction_on_chip(
        self,
        input: Tensor,
        start: list[Tensor],
        weights: list[nn.Parameter],
        reverse: bool,
        product: str,
    ) -> tuple[Tensor, ...]:
        weight_ih, weight_hh, *biases = weights
        bias = biases[0] + biases[1] if biases else None
        h, c = start
        return gated.lstm(input, h, c, weight_ih, weight_hh, bias, reverse, product)


class GRU(_Baseline, nn.GRU):
    """torch.nn.GRU, initialised as in section 6.1 (it has no forget gate: all biases 0).

    With `learn_initial_state`, h starts from the parameter `initial_hidden`.
    """

    _learned_names = ("initial_hidden",)
    _forget_gate = None
    _gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is None and self.learn_initial_state:
            (hx,) = self._learned_start(input)
        if not self._on_chip(input):
            return super().forward(input, hx)
        output, (h,) = self._layers_on_chip(input, self._states(input, hx, 1))
        return output, h

    def _direction_on_chip(
        self,
        input: Tensor,
        start: list[Tensor],
        weights: list[nn.Parameter],
        reverse: bool,
        product: str,
    ) -> tuple[Tensor, ...]:
        weight_ih, weight_hh, *biases = weights
        bias_ih, bias_hh = biases or (None, None)
        (h,) = start
        return gated.gru(input, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse, product)
