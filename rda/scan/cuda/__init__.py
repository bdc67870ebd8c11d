"""The GPU engine: a recurrent layer on chip, compiled at run time for its size."""
