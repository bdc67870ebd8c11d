"""`python -m rda.worker` is the command `rda` that ends with the process that holds its stdin."""

import sys

from rda.cli import command
from rda.training.interrupt import stop_at_end_of

if __name__ == "__main__":
    stop_at_end_of(sys.stdin.fileno())
    sys.exit(command())
