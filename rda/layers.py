"""RDA and RWA over sequences: drop-ins beside torch.nn.LSTM."""

import torch

from rda.activations import Activation, AttentionName, Choices, OutputName
from rda.scan.engines import EngineName
from rda.sequence import SequenceLayer
from rda.unit import Device


class RDA(SequenceLayer):
    """The Recurrent Discounted Attention unit over sequences (section 5).

        z_t     = u_t * tanh(g_t)                              features
        a_t     = f_a(W_a . [x_t, h_{t-1}] + b_a)              attention
        gamma_t = sigma(W_gamma . [x_t, h_{t-1}] + b_gamma)    discount
        h_t     = f_h(n_t / d_t),   o_t = f_o(h_t)             average and output, with
        n_t = n_{t-1} gamma_t + z_t a_t   and   d_t = d_{t-1} gamma_t + a_t

    A drop-in beside nn.LSTM: `output, (average, weight) = layer(input, (average, weight))`.

    Args:
        input_size: features of the input at each step.
        hidden_size: units, and features of the output.
        num_layers: layers stacked, each reading the output of the one below.
        bias: whether the gates have biases.
        batch_first: take and give (batch, time, features); states are not affected.
        dropout: probability of dropout on the output of every layer but the last.
        bidirectional: also run from the end to the start, outputs side by side.
        attention: f_a, one of "exp", "relu", "softplus", "sigmoid", or a callable.
        hidden: f_h, "identity" or "tanh", or a callable.
        output: f_o, "identity" or "tanh", or a callable.
        learn_initial_state: learn the average that a sequence starts from (with no weight
            behind it: it is what the gates of the first step see).
        engine: "auto", or the name of an engine.

    Parameters (k counts layers; `_reverse` follows for the backward direction):
        weight_ih_l{k}: (4 * hidden_size, features), blocks u, g, a, gamma.
        weight_hh_l{k}: (3 * hidden_size, hidden_size), blocks g, a, gamma.
        bias_l{k}: (4 * hidden_size), blocks u, g, a, gamma.
        initial_average: (num_layers * directions, hidden_size), where it is learned.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        attention: AttentionName | Activation = "exp",
        hidden: OutputName | Activation = "identity",
        output: OutputName | Activation = "tanh",
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
    ) -> None:
        conventions = (num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        options = (Choices(attention, hidden, output), learn_initial_state, engine)
        super().__init__(input_size, hidden_size, *conventions, *options)


class RWA(SequenceLayer):
    """The Recurrent Weighted Average over sequences (section 3): RDA's ancestor.

    exp, tanh and identity for f_a, f_h and f_o, and nothing is ever discounted. Arguments,
    parameters and state are `RDA`'s, without the three choices and without gamma's blocks.
    """

    _default_choices = Choices("exp", "tanh", "identity", discount=False)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
    ) -> None:
        conventions = (num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        options = (self._default_choices, learn_initial_state, engine)
        super().__init__(input_size, hidden_size, *conventions, *options)
