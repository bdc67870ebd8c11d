"""The paper's baselines: torch's LSTM and GRU with section 6.1's initialisation.

On a GPU that can, they run in our own engine; elsewhere in torch's.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rda.checks import check_flag
from rda.initialisation import bias_gates_, xavier_gates_
from rda.names import look_up
from rda.scan.cuda import gated
from rda.scan.cuda.choosing import WAYS, quickest
from rda.scan.cuda.launching import Layer, Run, product_for
from rda.scan.tracing import is_plain, is_transformed
from rda.stacking import run_stack


def _packed(states: list[Tensor]) -> Any:
    """As torch hands them out: a tuple, or the only one."""
    return states[0] if len(states) == 1 else tuple(states)


class _Baseline(nn.RNNBase):
    """Initialisation and a learned start for a recurrent layer of torch's."""

    weight_hh_l0: nn.Parameter
    _learned_names: tuple[str, ...]
    _forget_gate: int | None
    _gates: int
    _run_direction: Callable[..., tuple[Tensor, ...]]

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

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is None and self.learn_initial_state:
            hx = _packed(self._learned_start(input))
        name = self._way(input)
        if name is None:
            return super().forward(input, hx)
        states: list[Tensor | None] = [None] * len(self._learned_names)
        if hx is not None:
            self.check_forward_args(input, hx, None)
            states = [hx] if len(states) == 1 else list(hx)
        output, final = self._run_ours(WAYS[name].run, input, states)
        return output, _packed(final)

    def _learned_start(self, input: Tensor | PackedSequence) -> list[Tensor]:
        starts = [getattr(self, name) for name in self._learned_names]
        if isinstance(input, Tensor) and input.dim() != 3:
            return starts
        if isinstance(input, PackedSequence):
            batch = int(input.batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return [start.unsqueeze(1).expand(-1, batch, -1).contiguous() for start in starts]

    def _way(self, input: Any) -> str | None:
        """What runs this on a GPU instead of cuDNN: same weights, same results."""
        if self.engine == "torch" or not torch.backends.cudnn.enabled or self.proj_size:
            return None
        if not isinstance(input, Tensor) or input.dim() != 3 or not input.numel():
            return None
        dtypes = (torch.float32, torch.bfloat16)
        if input.dtype not in dtypes or torch.is_autocast_enabled("cuda"):
            return None
        if not is_plain(input) or is_transformed(chain([input], self.parameters())):
            return None
        batch = input.shape[0 if self.batch_first else 1]
        return quickest(Layer.on(input, self.hidden_size, self._gates, batch))

    def engine_for(self, input: Tensor) -> str:
        """What runs this layer on such an input."""
        name = self._way(input)
        if name is not None:
            return name
        return "cuDNN" if input.is_cuda and torch.backends.cudnn.enabled else "torch.nn"

    def _check(self, input: Tensor, states: list[Tensor | None]) -> None:
        """As nn.LSTM does, and where that leaves it to cuDNN, as cuDNN does."""
        self.check_input(input, None)
        given = [state for state in states if state is not None]
        for tensor in (self.weight_hh_l0, *given):
            if tensor.device != input.device:
                raise RuntimeError(
                    f"{type(self).__name__}: input, weights and states should be on one device, "
                    f"got {input.device} and {tensor.device}"
                )

    def _run_ours(
        self, run: Run, input: Tensor, states: list[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers and directions; `states` and the result are (rows, batch, hidden) each."""
        self._check(input, states)
        sequence = input.transpose(0, 1) if self.batch_first else input
        product = product_for(input.dtype, self.hidden_size)
        directions = 2 if self.bidirectional else 1
        dtype = torch.bfloat16 if product == "bf16" else torch.float32

        def run_group(k: int, below: Tensor) -> tuple[Tensor, list[Tensor]]:
            start = [None if state is None else state[k].float().contiguous() for state in states]
            reverse = directions == 2 and k % 2 == 1
            weights = [weight.to(dtype).contiguous() for weight in self.all_weights[k]]
            output, *final = self._run_direction(
                below.contiguous(), start, weights, reverse, run, product
            )
            return output, final

        dropout = self.dropout if self.training else 0.0
        sequence, finals = run_stack(
            sequence.to(dtype), self.num_layers, directions, dropout, run_group
        )
        sequence = sequence.to(input.dtype)
        output = sequence.transpose(0, 1) if self.batch_first else sequence
        parts = zip(*finals, strict=True)
        return output, [torch.stack(part).to(input.dtype) for part in parts]

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
    _run_direction = staticmethod(gated.lstm)


class GRU(_Baseline, nn.GRU):
    """torch.nn.GRU, initialised as in section 6.1 (it has no forget gate: all biases 0).

    With `learn_initial_state`, h starts from the parameter `initial_hidden`.
    """

    _learned_names = ("initial_hidden",)
    _forget_gate = None
    _gates = 3
    _run_direction = staticmethod(gated.gru)
