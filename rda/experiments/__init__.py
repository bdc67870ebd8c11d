"""The paper's experiments: what it published, the runs that repeat it, and running many at once."""
