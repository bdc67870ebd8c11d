"""One module per command: its arguments as a dataclass, and `run`, which returns the exit code."""
