"""The paper's baselines: torch's LSTM and GRU with the initialisation of section 6.1.

They run in our own engines where those can serve, otherwise in torch's implementation.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rda import units
from rda.checks import check_flag
from rda.initialisation import bias_gates_, xavier_gates_
from rda.names import look_up
from rda.precision import autocast_casts, autocast_dtype, autocast_off
from rda.scan.checks import check_lengths
from rda.scan.cpu.layer import scan
from rda.scan.cpu.native import SCALARS, compiled
from rda.scan.cuda import gated
from rda.scan.cuda.choosing import WAYS, quickest
from rda.scan.cuda.launching import Layer, Run, product_for
from rda.scan.dispatch import EngineUnavailableError
from rda.scan.engines import ENGINES
from rda.scan.kernels import in_memory
from rda.scan.passes import Weights
from rda.scan.tracing import is_plain, is_transformed
from rda.stacking import run_stack
from rda.unit import record_call
from rda.units import Unit

EngineName = Literal["auto", "torch", "block", "cuda", "grid", "graph", "cpu"]
TORCH: Final = "torch"
"""The engine that is torch's own implementation: cuDNN on a GPU."""
CPU: Final = "cpu"
RunGroup = Callable[[int, bool, Tensor], tuple[Tensor, list[Tensor]]]
"""Runs one direction of one layer: its number, whether it runs in reverse, and its input."""
FinalParts = list[tuple[Tensor, ...]]


def _compute_dtype(input: Tensor) -> torch.dtype:
    """The dtype that autocast asks for where it casts this input, otherwise the input's own."""
    wanted = autocast_dtype(input) if autocast_casts(input) else None
    return input.dtype if wanted is None else wanted


def _packed(states: list[Tensor]) -> Any:
    """The states as torch returns them: a tuple, or the only one itself."""
    return states[0] if len(states) == 1 else tuple(states)


def check_engine_name(engine: object) -> None:
    """Raise for a name that is no engine of LSTM and GRU."""
    names = get_args(EngineName)
    if isinstance(engine, str) and engine in ENGINES and engine not in names:
        raise ValueError(
            f"engine {engine!r} runs RDA and RWA alone. LSTM and GRU take: {', '.join(names)}"
        )
    look_up("engine", engine, dict.fromkeys(names))


class _Baseline(nn.RNNBase):
    """A recurrent layer of torch's with our initialisation, a learned start, and our engines."""

    weight_hh_l0: nn.Parameter
    _learned_names: tuple[str, ...]
    _gates: int
    _definition: Unit
    _fewest_steps = 1
    """From so many steps on the CPU engine is quicker than torch's own."""
    _run_direction: Callable[..., tuple[Tensor, ...]]

    def __init__(
        self,
        *args: Any,
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
        **options: Any,
    ) -> None:
        check_flag("learn_initial_state", learn_initial_state)
        check_engine_name(engine)
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

    def _gate_biases(self) -> tuple[float, ...]:
        """The initial bias of each gate."""
        raise NotImplementedError

    def _stored(self, weights: Sequence[Tensor]) -> Weights:
        """The weights of torch's class as the CPU engine takes them."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Section 6.1: Xavier weights for each gate, biases 0, except 1 for the forget gate."""
        for weight_ih, weight_hh, *others in self.all_weights:
            rows = weight_ih.shape[0] // self._gates
            blocks = zip(
                weight_ih.detach().split(rows), weight_hh.detach().split(rows), strict=True
            )
            xavier_gates_(list(blocks))
            biases = [other.detach() for other in others if other.dim() == 1]
            # torch adds two biases, so only the first one gets them.
            for bias, values in zip(
                biases, (self._gate_biases(), [0.0] * self._gates), strict=False
            ):
                bias_gates_(bias, values)
            xavier_gates_([(other.detach(), None) for other in others if other.dim() == 2])
        for name in self._learned_names:
            if hasattr(self, name):
                nn.init.zeros_(getattr(self, name))

    def forward(self, input: Any, hx: Any = None, *, lengths: Tensor | None = None) -> Any:
        """As torch's own forward, with one more argument.

        Args:
            input: as in torch.
            hx: as in torch; None means the learned start, where there is one.
            lengths: (batch,) integers from 1 to time, the number of steps of each sequence in a
                padded batch, as in `rda.RDA`.
        """
        if isinstance(input, Proxy):
            return record_call(self, input, hx, lengths=lengths)
        if lengths is not None:
            return self._forward_ragged(input, hx, lengths)
        if hx is None and self.learn_initial_state:
            hx = _packed(self._learned_start(input))
        states = self._states(hx)
        name = self._choose(input, [state for state in states if state is not None])
        if name == TORCH:
            return super().forward(input, hx)
        if hx is not None:
            self.check_forward_args(input, hx, None)
        self._check(input, states)
        if name == CPU:
            output, final = self._run_compiled(input, states)
            return output, _packed(final)
        cast = input.to(_compute_dtype(input))
        with autocast_off(input):
            output, final = self._run_ours(WAYS[name].run, cast, states)
        return output, _packed(final)

    def _states(self, hx: Any) -> list[Tensor | None]:
        """The parts of a state; as many times None where there is none."""
        names = self._learned_names
        if hx is None:
            return [None] * len(names)
        if len(names) == 1:
            return [hx]
        kind = type(self).__name__
        if not isinstance(hx, tuple | list):
            raise TypeError(f"{kind}: hx should be a tuple of tensors, got: {type(hx).__name__}")
        if len(hx) != len(names):
            raise RuntimeError(f"{kind}: hx should have {len(names)} tensors, got {len(hx)}")
        return list(hx)

    def _forward_ragged(self, input: Any, hx: Any, lengths: Tensor) -> Any:
        if not isinstance(input, Tensor) or input.dim() != 3:
            kind = "unbatched input" if isinstance(input, Tensor) else "a PackedSequence"
            raise ValueError(f"{type(self).__name__}: lengths should be None for {kind}")
        check_lengths(lengths, input.transpose(0, 1) if self.batch_first else input)
        steps = input.shape[1 if self.batch_first else 0]
        packed = pack_padded_sequence(input, lengths.cpu(), self.batch_first, enforce_sorted=False)
        output, final = self.forward(packed, hx)
        padded, _ = pad_packed_sequence(output, self.batch_first, total_length=steps)
        return padded, final

    def _learned_start(self, input: Tensor | PackedSequence) -> list[Tensor]:
        starts = [getattr(self, name) for name in self._learned_names]
        if isinstance(input, Tensor) and input.dim() != 3:
            return starts
        if isinstance(input, PackedSequence):
            batch = int(input.batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return [start.unsqueeze(1).expand(-1, batch, -1).contiguous() for start in starts]

    def _choose(self, input: Any, states: Sequence[Any] = ()) -> str:
        """The engine for this input. A name that cannot serve raises; `auto` takes the quickest."""
        if self.engine == TORCH:
            return TORCH
        reason = self._obstacle(input, states)
        if reason is None:
            name, reason = self._choose_for(input)
            if name is not None:
                return name
        if self.engine == "auto":
            return TORCH
        raise EngineUnavailableError(f"engine {self.engine!r} cannot serve this call: {reason}")

    def _choose_for(self, input: Tensor) -> tuple[str | None, str | None]:
        """The engine for an input that one of ours may serve, or None and why not."""
        device, dtype = input.device.type, _compute_dtype(input)
        batch, steps = input.shape[:2] if self.batch_first else (input.shape[1], input.shape[0])
        if self.engine == "auto" and device == "cpu" and steps < self._fewest_steps:
            return None, "torch's own is quicker for so few steps"
        if self.engine == CPU or (self.engine == "auto" and device == "cpu"):
            reason = self._cpu_obstacle(device, dtype)
            return (CPU, None) if reason is None else (None, reason)
        units = self.hidden_size
        product = product_for(dtype, units)
        layer = Layer(input.device, dtype, units, self._gates, batch, product)
        if self.engine == "auto":
            return quickest(layer), "no engine of ours is quicker"
        reason = WAYS[self.engine].obstacle(layer)
        return (self.engine, None) if reason is None else (None, reason)

    def _cpu_obstacle(self, device: str, dtype: torch.dtype) -> str | None:
        if device != "cpu":
            return f"it runs on a CPU, and the tensors are on {device}"
        if dtype not in SCALARS:
            return f"it computes in float32 and float64, and is asked for {dtype}"
        found = compiled(self._definition, dtype)
        return found if isinstance(found, str) else None

    def _obstacle(self, input: Any, states: Sequence[Any]) -> str | None:
        """Why torch's own implementation has to run, whatever the size and the device; or None."""
        if not isinstance(input, Tensor) or input.dim() != 3 or not input.numel():
            return "it takes a batch of sequences of one length, at least one, as a 3-D tensor"
        if input.device.type not in ("cuda", "cpu"):
            return f"it runs on NVIDIA GPUs and CPUs, and the tensors are on {input.device.type}"
        if self.proj_size:
            return "it has no projection of the hidden state (proj_size)"
        dtype = _compute_dtype(input)
        if input.is_cuda and dtype not in (torch.float32, torch.bfloat16):
            return f"it computes in float32 and bfloat16, and is asked for {dtype}"
        if input.is_cuda and not torch.backends.cudnn.enabled:
            return "it needs torch.backends.cudnn enabled"
        if not all(isinstance(state, Tensor) for state in states):
            return "its states are tensors"  # torch says what is wrong
        if not all(map(is_plain, (input, *states))) or is_transformed(
            chain([input], states, self.parameters())
        ):
            return "torch.compile, torch.func and forward-mode derivatives need torch's own"
        return None

    def engine_for(self, input: Tensor) -> str:
        """The name of what runs this layer on such an input."""
        name = self._choose(input)
        if name != TORCH:
            return name
        return "cuDNN" if input.is_cuda and torch.backends.cudnn.enabled else "torch.nn"

    def _check(self, input: Tensor, states: list[Tensor | None]) -> None:
        """The checks of nn.LSTM, and those that it leaves to cuDNN."""
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
        """On a GPU. Each state is (layers * directions, batch, hidden_size)."""
        product = product_for(input.dtype, self.hidden_size)
        dtype = torch.bfloat16 if product == "bf16" else torch.float32

        def run_group(k: int, reverse: bool, below: Tensor) -> tuple[Tensor, list[Tensor]]:
            start = [None if state is None else in_memory(state[k].float()) for state in states]
            # First rounded as the input is: small layers compute in float32 under autocast too.
            rounded = (weight.to(input.dtype) for weight in self.all_weights[k])
            weights = [in_memory(weight.to(dtype)) for weight in rounded]
            output, *final = self._run_direction(
                in_memory(below), start, weights, reverse, run, product
            )
            return output, final

        output, parts = self._run_groups(input.to(dtype), run_group)
        return output.to(input.dtype), [torch.stack(part).to(input.dtype) for part in parts]

    def _run_compiled(
        self, input: Tensor, states: list[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """The same on a CPU."""
        kernel = compiled(self._definition, input.dtype)
        assert not isinstance(kernel, str)

        def run_group(k: int, reverse: bool, below: Tensor) -> tuple[Tensor, list[Tensor]]:
            start = [None if state is None else state[k] for state in states]
            weights = self._stored(self.all_weights[k])
            output, *final = scan(kernel, below, weights, start, reverse=reverse)
            return output, final

        output, parts = self._run_groups(input, run_group)
        return output, [torch.cat(part) for part in parts]

    def _run_groups(self, input: Tensor, run_group: RunGroup) -> tuple[Tensor, FinalParts]:
        """All layers and directions: the output, and for each part of the state all groups' own."""
        sequence = input.transpose(0, 1) if self.batch_first else input
        directions = 2 if self.bidirectional else 1
        dropout = self.dropout if self.training else 0.0

        def run(k: int, below: Tensor) -> tuple[Tensor, list[Tensor]]:
            return run_group(k, directions == 2 and k % 2 == 1, below)

        sequence, finals = run_stack(sequence, self.num_layers, directions, dropout, run)
        output = sequence.transpose(0, 1) if self.batch_first else sequence
        return output, list(zip(*finals, strict=True))

    def extra_repr(self) -> str:
        learned = ", learn_initial_state=True" if self.learn_initial_state else ""
        return super().extra_repr() + learned


class LSTM(_Baseline, nn.LSTM):
    """torch.nn.LSTM with the initialisation of section 6.1.

    With `learn_initial_state`, a call without a state starts from the parameters `initial_hidden`
    and `initial_cell`, each (num_layers * directions, hidden_size). `engine` is "auto", "torch"
    for torch's own implementation, or the name of one of our engines: "cpu", or those for GPUs.
    """

    _learned_names = ("initial_hidden", "initial_cell")
    _gates = 4
    _definition = units.LSTM()
    _run_direction = staticmethod(gated.lstm)

    def _stored(self, weights: Sequence[Tensor]) -> Weights:
        weight_ih, weight_hh, *biases = weights
        return Weights(weight_ih, biases[0] + biases[1] if biases else None, weight_hh)

    def _gate_biases(self) -> tuple[float, ...]:
        return 0.0, 1.0, 0.0, 0.0  # the second is the forget gate


class GRU(_Baseline, nn.GRU):
    """torch.nn.GRU with the initialisation of section 6.1. Without a forget gate, all biases are 0.

    With `learn_initial_state`, a call without a state starts from the parameter `initial_hidden`.
    `gate_bias` is the initial bias of the reset and update gates; TensorFlow 1, in which the
    paper's experiments were made, starts them at 1. `engine` is as in `LSTM`.
    """

    _learned_names = ("initial_hidden",)
    _gates = 3
    _definition = units.GRU()
    _fewest_steps = 2
    _run_direction = staticmethod(gated.gru)

    def _stored(self, weights: Sequence[Tensor]) -> Weights:
        weight_ih, weight_hh, *biases = weights
        r, z, n = weight_ih.chunk(3)
        ordered = torch.cat((n, r, z))
        if not biases:
            return Weights(ordered, None, weight_hh, (weight_hh.new_zeros(self.hidden_size),))
        (r, z, n), (r_h, z_h, n_h) = (bias.chunk(3) for bias in biases)
        return Weights(ordered, torch.cat((n, r + r_h, z + z_h)), weight_hh, (n_h,))

    def __init__(self, *args: Any, gate_bias: float = 0.0, **options: Any) -> None:
        self.gate_bias = gate_bias
        super().__init__(*args, **options)

    def _gate_biases(self) -> tuple[float, ...]:
        return self.gate_bias, self.gate_bias, 0.0
