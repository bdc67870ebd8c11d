"""People's own sequences: read from files or arrays, understood, split, and made fit for a unit."""

from rda.sequences.dataset import Channel, Sequences, SequencesError, Target
from rda.sequences.reading import read
from rda.sequences.roles import Roles

__all__ = ["Channel", "Roles", "Sequences", "SequencesError", "Target", "read"]
