"""A unit between a task's inputs and its answers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from rda.catalogue import build
from rda.training.noise import Noise

if TYPE_CHECKING:
    from rda.training.record import Record

RECURRENT = "weight_hh_l0"
"""The unit's parameter that is multiplied with its last output."""
WHOLE_ROW = 8
"""On a GPU, rows of so many numbers in half precision begin at multiples of 16 bytes."""


class SequenceModel(nn.Module):
    """Symbols one-hot or embedded, one layer of the unit, one linear readout.

    `record` is the run that trained the model, where `rda.load` has made it: its `settings` tell
    the task, the unit and the recipe, its `status` how training ended.
    """

    record: "Record | None" = None
    facts: Mapping[str, Any] = MappingProxyType({})
    """Of the data that it was trained on, where `rda.load` has made it (`Source.facts`)."""

    def __init__(
        self,
        unit: str,
        hidden_size: int,
        *,
        input_size: int,
        output_size: int,
        symbolic: bool = False,
        embedding_size: int = 0,
        reads_every_step: bool = False,
        learn_initial_state: bool = False,
        initial_state_deviation: float = 0.0,
        gru_gate_bias: float = 0.0,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.symbols = input_size if symbolic else None
        self.reads_every_step = reads_every_step
        features = embedding_size or input_size
        self.encoder = nn.Embedding(input_size, features) if embedding_size else None
        options: dict[str, Any] = {"learn_initial_state": learn_initial_state, "engine": engine}
        if gru_gate_bias:
            options["gate_bias"] = gru_gate_bias
        self.unit: Any = build(unit, features, hidden_size, **options)
        self.readout = nn.Linear(hidden_size, output_size)
        self.reset_parameters()
        if initial_state_deviation:
            for name, start in self.unit.named_parameters():
                if name.startswith("initial_"):
                    nn.init.normal_(start, std=initial_state_deviation)

    def needed_beside(self) -> dict[str, Any]:
        """What else a program needs that is given the exported model, by name; fit for JSON."""
        return {}

    def reset_parameters(self) -> None:
        """Section 6.1 for all that does not belong to the unit: Xavier weights, biases 0."""
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        if self.encoder is not None:
            nn.init.xavier_uniform_(self.encoder.weight)

    def forward(
        self,
        input: Tensor,
        state: Any = None,
        *,
        lengths: Tensor | None = None,
        noise: Noise | None = None,
    ) -> tuple[Tensor, Any]:
        """The prediction for each answer, and the state after the last step.

        Args:
            input: (time, batch, features), or (time, batch) of symbols.
            state: the state to start from, as the unit takes it; None for a new sequence.
            lengths: (batch), how long each sequence is; None where all end at the last step.
            noise: what a step of training hides.

        Returns:
            Predictions, (time, batch, answers) where the task reads every step, otherwise
            (batch, answers) at the end of each sequence, and the state after the last step of
            the batch, which is of use only where all sequences are equally long.
        """
        # Every unit is causal, so what stands beyond a sequence's end cannot reach its answer.
        if self.reads_every_step and lengths is not None:
            raise ValueError("lengths should be None for a model that answers at every step")
        output, state = self._run(self.encode(input), state, noise)
        if not self.reads_every_step:
            rows = torch.arange(output.shape[1], device=output.device)
            output = output[-1] if lengths is None else output[lengths - 1, rows]
        return self._read(output if noise is None else noise.on_outputs(output)), state

    def _run(self, input: Tensor, state: Any, noise: Noise | None) -> Any:
        if noise is None or noise.weights is None:
            return self.unit(input, state)
        weights = noise.on_weights(self.recurrent_weights)
        return functional_call(self.unit, {RECURRENT: weights}, (input, state))

    def _read(self, output: Tensor) -> Tensor:
        in_half_precision = output.is_cuda and torch.is_autocast_enabled("cuda")
        read: Tensor = (
            aligned_product(self.readout, output) if in_half_precision else self.readout(output)
        )
        return read

    @property
    def recurrent_weights(self) -> Tensor:
        """What the unit multiplies its last output with."""
        weights: Tensor = getattr(self.unit, RECURRENT)
        return weights

    def encode(self, input: Tensor) -> Tensor:
        """What the unit reads: symbols embedded or one-hot, numbers as they are."""
        if self.encoder is not None:
            encoded: Tensor = self.encoder(input)
            return encoded
        if self.symbols is not None:
            return F.one_hot(input, self.symbols).to(self.readout.weight.dtype)
        return input

    def engine_for(self, batch_size: int) -> str:
        """The name of the engine that runs this model's unit on batches of this size."""
        example = self.readout.weight.new_empty(2, batch_size, self.unit.input_size)
        named: str = self.unit.engine_for(example)
        return named


def fits(model: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Whether these are all the weights of the model, each of its shape."""
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    return expected == {name: tensor.shape for name, tensor in weights.items()}


def aligned_product(layer: nn.Linear, input: Tensor) -> Tensor:
    """`layer(input)` by way of columns that are only there to be aligned.

    Where rows are not aligned, a GPU takes several times as long for the matrix product and for
    both of its backward pass.
    """
    missing = -layer.out_features % WHOLE_ROW
    if not missing:
        product: Tensor = layer(input)
        return product
    weight = F.pad(layer.weight, (0, 0, 0, missing))
    return F.linear(input, weight, F.pad(layer.bias, (0, missing)))[..., : layer.out_features]
