"""The paper's real data sets, verified byte for byte. `store.load` is the door."""
