"""Scalars as expressions: a step is traced, its backward pass derived, and both printed as code."""
