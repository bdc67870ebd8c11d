"""One loop for full and truncated BPTT; goals; run records; checkpoints."""
