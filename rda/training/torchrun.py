"""Whether torchrun has started this process, as its environment says; needs no torch."""

import os

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def by_torchrun() -> bool:
    """Whether torchrun has started this process, alone or with others."""
    return all(name in os.environ for name in VARIABLES)


def processes() -> int:
    """How many processes train the same run."""
    return int(os.environ["WORLD_SIZE"]) if by_torchrun() else 1


def is_team() -> bool:
    """Whether there are other processes of the same run."""
    return processes() > 1


def follows() -> bool:
    """Whether another process of the same run leads."""
    return is_team() and int(os.environ["RANK"]) > 0
