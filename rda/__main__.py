"""`python -m rda` is the command `rda`."""

import sys

from rda.cli import command

sys.exit(command())
