"""The paper's real data sets, verified by checksum. Start at `rda.data.store.load`."""
