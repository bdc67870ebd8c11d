"""The recurrent units, each as one small definition from which every engine is made."""

from rda.units.gru import GRU
from rda.units.known import register
from rda.units.lstm import LSTM
from rda.units.rda import RDA, RWA
from rda.units.rnn import RNN
from rda.units.unit import Part, Unit

__all__ = ["GRU", "LSTM", "RDA", "RNN", "RWA", "Part", "Unit", "register"]
