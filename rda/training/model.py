"""A unit between a task's inputs and its answers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rda.catalogue import build
from rda.precision import compute_dtype
from rda.scan.dispatch import select
from rda.sequence import SequenceLayer
from rda.tasks.task import Batch, Task


class SequenceModel(nn.Module):
    """Symbols one hot or embedded, one layer of the unit, one linear readout."""

    def __init__(
        self,
        task: Task,
        unit: str,
        hidden_size: int,
        *,
        learn_initial_state: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.symbols = task.input_size if task.symbolic else None
        self.reads_every_step = task.reads_every_step
        features = task.embedding or task.input_size
        self.encoder = nn.Embedding(task.input_size, features) if task.embedding else None
        # LSTM and GRU have two ways to run, our GPU engine's and torch's own.
        if unit in ("LSTM", "GRU") and engine != "torch":
            engine = "auto"
        self.unit: Any = build(
            unit, features, hidden_size, learn_initial_state=learn_initial_state, engine=engine
        )
        self.readout = nn.Linear(hidden_size, task.output_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Section 6.1 for what is not the unit's own: Xavier weights, biases 0."""
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        if self.encoder is not None:
            nn.init.xavier_uniform_(self.encoder.weight)

    def forward(self, batch: Batch, state: Any = None) -> tuple[Tensor, Any]:
        """The prediction for each answer, and the state in which the sequences end.

        Every unit is causal: what stands beyond a sequence's end cannot reach the step that is
        read. The state is that of the last step, of use where all sequences are equally long.
        """
        output, state = self.unit(self._encode(batch.input), state)
        if self.reads_every_step:
            return self.readout(output), state
        if batch.lengths is None:
            return self.readout(output[-1]), state
        rows = torch.arange(output.shape[1], device=output.device)
        return self.readout(output[batch.lengths - 1, rows]), state

    def _encode(self, input: Tensor) -> Tensor:
        if self.encoder is not None:
            encoded: Tensor = self.encoder(input)
            return encoded
        if self.symbols is not None:
            return F.one_hot(input, self.symbols).to(self.readout.weight.dtype)
        return input

    def engine_for(self, batch_size: int) -> str:
        """The engine that runs this model's unit on batches of such a size."""
        example = self.readout.weight.new_empty(2, batch_size, self.unit.input_size)
        if isinstance(self.unit, SequenceLayer):
            _, recurrent, *_ = self.unit.all_weights[0]
            example = example.to(compute_dtype(example, recurrent))
            return select(self.unit.engine, example, self.unit.choices, recurrent).name
        named: str = self.unit.engine_for(example)
        return named
