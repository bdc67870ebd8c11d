"""RDA and RWA over sequences, with the interface of torch.nn.LSTM."""

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

    It is called like nn.LSTM: `output, (average, weight) = layer(input, (average, weight))`.

    Args:
        input_size: number of input features at each step.
        hidden_size: number of units, which is the number of output features.
        num_layers: number of stacked layers. Each reads the output of the layer below it.
        bias: whether the gates have biases.
        batch_first: input and output are (batch, time, features). States keep their layout.
        dropout: probability of dropout on the output of every layer except the last.
        bidirectional: also run each layer from the end to the start, and concatenate the outputs.
        attention: f_a, one of "exp", "relu", "softplus", "sigmoid", or a callable.
        hidden: f_h, "identity" or "tanh", or a callable.
        output: f_o, "identity" or "tanh", or a callable.
        learn_initial_state: learn the average from which a sequence starts. It has no weight: the
            gates of the first step see it, and the first features replace it.
        engine: "auto" for the fastest one that can run, or the name of an engine, which raises
            `rda.EngineUnavailableError` if it cannot run. `rda doctor` lists the engines.

    Parameters (k is the layer; the backward direction has the suffix `_reverse`):
        weight_ih_l{k}: (4 * hidden_size, features), blocks u, g, a, gamma.
        weight_hh_l{k}: (3 * hidden_size, hidden_size), blocks g, a, gamma.
        bias_l{k}: (4 * hidden_size), blocks u, g, a, gamma.
        initial_average: (num_layers * directions, hidden_size), with `learn_initial_state`.
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
    """The Recurrent Weighted Average over sequences (section 3), the predecessor of RDA.

    f_a, f_h and f_o are exp, tanh and the identity, and the past is never discounted. Arguments,
    parameters and state are those of `RDA`, without the three functions and the gamma blocks.
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
