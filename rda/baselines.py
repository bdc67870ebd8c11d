"""The paper's baselines: torch's LSTM and GRU with the initialisation of section 6.1.

They run in our own engines where those can serve, otherwise in torch's implementation.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rda import units
from rda.checks import check_flag
from rda.initialisation import bias_gates_, xavier_gates_
from rda.modules import record_call
from rda.names import look_up
from rda.packing import Packing
from rda.precision import autocast_casts, autocast_off, compute_dtype, in_dtype, state_dtype
from rda.scan.checks import check_lengths
from rda.scan.cuda.launching import Layer, product_for
from rda.scan.dispatch import EngineUnavailableError, choose, scan_layer
from rda.scan.engines import ON_GPUS, Work
from rda.scan.passes import Call, Weights
from rda.scan.tracing import is_plain
from rda.stacking import run_stack
from rda.units import Unit
from rda.units.known import register

EngineName = Literal["auto", "torch", "block", "cuda", "grid", "graph", "cpu", "eager", "reference"]
TORCH: Final = "torch"
"""The engine that is torch's own implementation: cuDNN on a GPU."""
QUICKER_THAN_TORCH = (*ON_GPUS, "cpu")


def _packed(states: list[Tensor]) -> Any:
    """The states as torch returns them: a tuple, or the only one itself."""
    return states[0] if len(states) == 1 else tuple(states)


def check_engine_name(engine: object) -> None:
    """Raise for a name that is no engine of LSTM and GRU."""
    look_up("engine", engine, dict.fromkeys(get_args(EngineName)))


class _Baseline(nn.RNNBase):
    """A recurrent layer of torch's with our initialisation, a learned start, and our engines.

    It has the parameters of torch's class, `_torch`, and is not a subclass of it, because
    torch.compile refuses those.

    Deviation: they have two vectors of biases where the paper's units have one. Where the two are
    added, Adam moves the sum twice as fast.
    """

    _torch: Any

    weight_hh_l0: nn.Parameter
    _learned_names: tuple[str, ...]
    _gates: int
    _definition: Unit
    _key: str
    _fewest_steps = 1
    """From so many steps on the CPU engine is quicker than torch's own."""

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
        super().__init__(type(self).__name__, *args, **options)
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
        """The weights of torch's class as those of the unit."""
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
            lengths: (batch,) integers from 0 to time, the number of steps of each sequence in a
                padded batch, as in `rda.RDA`.
        """
        if isinstance(input, Proxy):
            return record_call(self, input, hx, lengths=lengths)
        if lengths is not None and (not isinstance(input, Tensor) or input.dim() != 3):
            kind = "unbatched input" if isinstance(input, Tensor) else "a PackedSequence"
            raise ValueError(f"{type(self).__name__}: lengths should be None for {kind}")
        if hx is None and self.learn_initial_state:
            hx = _packed(self._learned_start(input))
        states = self._states(hx)
        name = self._choose(input, states, lengths)
        if name == TORCH and lengths is not None:
            return self._ragged(input, hx, lengths)
        if name == TORCH:
            return self._torch.forward(self, input, hx)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, states, name)
        if hx is not None:
            self.check_forward_args(input, hx, None)
        self._check(input, states)
        sequence = input.transpose(0, 1) if self.batch_first else input
        output, final = self._run(sequence, states, lengths, name)
        return output.transpose(0, 1) if self.batch_first else output, _packed(final)

    def _states(self, hx: Any) -> list[Tensor]:
        """The parts of a state; an empty list where there is none."""
        names = self._learned_names
        if hx is None:
            return []
        if len(names) == 1:
            return [hx]
        kind = type(self).__name__
        if not isinstance(hx, tuple | list):
            raise TypeError(f"{kind}: hx should be a tuple of tensors, got: {type(hx).__name__}")
        if len(hx) != len(names):
            raise RuntimeError(f"{kind}: hx should have {len(names)} tensors, got {len(hx)}")
        return list(hx)

    def _ragged(self, input: Tensor, hx: Any, lengths: Tensor) -> Any:
        """Rows of different lengths in torch's implementation.

        It takes no row without steps: such a row runs for a step of zeros, which then counts for
        nothing.
        """
        check_lengths(lengths, input.transpose(0, 1) if self.batch_first else input)
        if not len(lengths):
            return self._torch.forward(self, input, hx)
        steps = input.shape[1 if self.batch_first else 0]
        empty = (lengths == 0).to(input.device)[:, None]
        rows = empty[:, None] if self.batch_first else empty
        is_any_empty = bool(empty.any())
        if is_any_empty:
            input = input.masked_fill(rows, 0.0)  # a NaN there would reach the weights' gradients
        counts = lengths.cpu().clamp(min=1)
        packed = pack_padded_sequence(input, counts, self.batch_first, enforce_sorted=False)
        output, final = self._torch.forward(self, packed, hx)
        padded, _ = pad_packed_sequence(output, self.batch_first, total_length=steps)
        if not is_any_empty:
            return padded, final
        finals = [final] if isinstance(final, Tensor) else final
        starts = self._states(hx) or [torch.zeros_like(part) for part in finals]
        finals = [torch.where(empty, *pair) for pair in zip(starts, finals, strict=True)]
        return padded.masked_fill(rows, 0.0), _packed(finals)

    def _forward_packed(self, input: PackedSequence, states: list[Tensor], name: str) -> Any:
        packing = Packing(input, type(self).__name__)
        if states:
            self.check_forward_args(input.data, _packed(states), input.batch_sizes)
        self._check(input.data, states, input.batch_sizes)
        start = [packing.sort(state) for state in states]
        output, final = self._run(packing.pad(input.data), start, packing.lengths, name)
        return packing.pack(output), _packed([packing.unsort(part) for part in final])

    def _learned_start(self, input: Tensor | PackedSequence) -> list[Tensor]:
        starts = [getattr(self, name) for name in self._learned_names]
        if isinstance(input, Tensor) and input.dim() != 3:
            return starts
        if isinstance(input, PackedSequence):
            batch = int(input.batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return [start.unsqueeze(1).expand(-1, batch, -1).contiguous() for start in starts]

    def _choose(self, input: Any, states: Sequence[Any] = (), lengths: Tensor | None = None) -> str:
        """The engine for this input. A name that cannot serve raises; `auto` takes the quickest."""
        if self.engine == TORCH:
            return TORCH
        reason = self._obstacle(input, states)
        if reason is None and self.engine != "auto":
            choose(self.engine, self._work(input, states))
            return self.engine
        if reason is not None:
            if self.engine == "auto":
                return TORCH
            raise EngineUnavailableError(f"engine {self.engine!r} cannot serve this call: {reason}")
        data = input.data if isinstance(input, PackedSequence) else input
        if lengths is not None and not is_plain(data):
            # torch's own would read the lengths, which have no values while they are traced.
            return choose("auto", self._work(input, states), tell=False)
        steps = input.shape[1 if self.batch_first else 0] if data is input else self._fewest_steps
        if data.device.type == "cpu" and steps < self._fewest_steps:
            return TORCH
        if data.is_cuda and compute_dtype(data, self.weight_hh_l0) == torch.float16:
            return TORCH  # which multiplies in float16 where ours would in tf32
        chosen = choose("auto", self._work(input, states), tell=False)
        return chosen if chosen in QUICKER_THAN_TORCH else TORCH

    def _work(self, input: Tensor | PackedSequence, states: Sequence[Tensor]) -> Work:
        """What the engines are asked about."""
        if isinstance(input, PackedSequence):
            data, batch = input.data, int(input.batch_sizes[0])
        else:
            data, batch = input, input.shape[0 if self.batch_first else 1]
        dtype, units = compute_dtype(data, self.weight_hh_l0), self.hidden_size
        layer = Layer(data.device, dtype, units, self._gates, batch, product_for(dtype, units))
        return Work(
            layer,
            self._definition,
            self._key,
            (data, *states, *(w for w in self._flat_weights if w is not None)),
        )

    def _obstacle(self, input: Any, states: Sequence[Any]) -> str | None:
        """Why torch's own implementation has to run, whatever the size and the device; or None."""
        data = input.data if isinstance(input, PackedSequence) else input
        ranks = (2,) if isinstance(input, PackedSequence) else (3,)
        if not isinstance(data, Tensor) or data.dim() not in ranks or not data.numel():
            return "it takes a batch of sequences, at least one, as a 3-D tensor or packed"
        if self.proj_size:
            return "it has no projection of the hidden state (proj_size)"
        if data.is_cuda and not torch.backends.cudnn.enabled:
            return "it needs torch.backends.cudnn enabled"
        if not all(isinstance(state, Tensor) for state in states):
            return "its states are tensors"  # torch says what is wrong
        if data.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            return f"it computes in floating point, and is asked for {data.dtype}"
        return None

    def engine_for(self, input: Tensor) -> str:
        """The name of what runs this layer on such an input."""
        name = self._choose(input)
        if name != TORCH:
            return name
        return "cuDNN" if input.is_cuda and torch.backends.cudnn.enabled else "torch.nn"

    def first_call(self, sequence: Tensor, state: Any = None) -> Call:
        """What the first direction of the first layer does with a (time, batch, features) sequence.

        The state is what users carry.
        """
        states = self._states(state)
        if state is None and self.learn_initial_state:
            input = sequence.transpose(0, 1) if self.batch_first else sequence
            states = self._learned_start(input)
        weights = self._stored(self.all_weights[0])
        start = tuple(in_dtype(part[0], state_dtype(sequence.dtype)) for part in states)
        return Call(self._definition, self._key, sequence, weights, start, None, False)

    def _check(self, input: Tensor, states: list[Tensor], sizes: Tensor | None = None) -> None:
        """The checks of nn.LSTM, and those that it leaves to cuDNN."""
        self.check_input(input, sizes)
        for tensor in (self.weight_hh_l0, *states):
            if tensor.device != input.device:
                raise RuntimeError(
                    f"{type(self).__name__}: input, weights and states should be on one device, "
                    f"got {input.device} and {tensor.device}"
                )
            if tensor.dtype != input.dtype and not autocast_casts(input):
                raise RuntimeError(
                    f"{type(self).__name__}: input, weights and states should have one dtype, "
                    f"got {input.dtype} and {tensor.dtype}"
                )

    def _run(
        self, sequence: Tensor, states: list[Tensor], lengths: Tensor | None, engine: str
    ) -> tuple[Tensor, list[Tensor]]:
        """All layers and directions over one (time, batch, features) sequence."""
        dtype = compute_dtype(sequence, self.weight_hh_l0)
        wide = state_dtype(dtype)
        directions = 2 if self.bidirectional else 1
        dropout = self.dropout if self.training else 0.0
        weights_of = self.all_weights

        def run_group(k: int, below: Tensor) -> tuple[Tensor, list[Tensor]]:
            weights = self._stored([in_dtype(weight, dtype) for weight in weights_of[k]])
            start = tuple(in_dtype(state[k], wide) for state in states)
            reverse = directions == 2 and k % 2 == 1
            call = Call(self._definition, self._key, below, weights, start, lengths, reverse)
            output, *final = scan_layer(call, engine, is_chosen=True)
            return output, final

        with autocast_off(sequence):
            sequence = in_dtype(sequence, dtype)
            output, finals = run_stack(sequence, self.num_layers, directions, dropout, run_group)
            parts = finals[0]
            if len(finals) > 1:
                parts = [torch.cat(part) for part in zip(*finals, strict=True)]
            return output, [in_dtype(part, dtype) for part in parts]

    def extra_repr(self) -> str:
        learned = ", learn_initial_state=True" if self.learn_initial_state else ""
        return super().extra_repr() + learned


class LSTM(_Baseline):
    """torch.nn.LSTM with the initialisation of section 6.1.

    With `learn_initial_state`, a call without a state starts from the parameters `initial_hidden`
    and `initial_cell`, each (num_layers * directions, hidden_size). `engine` is "auto", "torch"
    for torch's own implementation, or the name of one of our engines: "cpu", or those for GPUs.
    """

    _torch = nn.LSTM
    _learned_names = ("initial_hidden", "initial_cell")
    _gates = 4
    _definition = units.LSTM()
    _key = register(_definition)

    # What torch's own forward calls.
    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]
    permute_hidden = nn.LSTM.permute_hidden  # type: ignore[assignment]

    def _stored(self, weights: Sequence[Tensor]) -> Weights:
        weight_ih, weight_hh, *biases = weights
        return Weights(weight_ih, biases[0] + biases[1] if biases else None, weight_hh)

    def _gate_biases(self) -> tuple[float, ...]:
        return 0.0, 1.0, 0.0, 0.0  # the second is the forget gate


class GRU(_Baseline):
    """torch.nn.GRU with the initialisation of section 6.1. Without a forget gate, all biases are 0.

    With `learn_initial_state`, a call without a state starts from the parameter `initial_hidden`.
    `gate_bias` is the initial bias of the reset and update gates; TensorFlow 1, in which the
    paper's experiments were made, starts them at 1. `engine` is as in `LSTM`.
    """

    _torch = nn.GRU
    _learned_names = ("initial_hidden",)
    _gates = 3
    _definition = units.GRU()
    _key = register(_definition)
    _fewest_steps = 2

    def _stored(self, weights: Sequence[Tensor]) -> Weights:
        weight_ih, weight_hh, *biases = weights
        r, z, n = weight_ih.chunk(3)
        ordered = torch.cat((n, r, z))
        if not biases:
            return Weights(ordered, None, weight_hh, (weight_hh.new_zeros(self.hidden_size),))
        (r, z, n), (r_h, z_h, n_h) = (bias.chunk(3) for bias in biases)
        return Weights(ordered, torch.cat((n, r + r_h, z + z_h)), weight_hh, (n_h,))

    def __init__(self, *args: Any, gate_bias: float = 0.0, **options: Any) -> None:
        if "proj_size" in options:
            raise ValueError("proj_size goes with LSTM alone, not with GRU")
        self.gate_bias = gate_bias
        super().__init__(*args, **options)

    def _gate_biases(self) -> tuple[float, ...]:
        return self.gate_bias, self.gate_bias, 0.0
