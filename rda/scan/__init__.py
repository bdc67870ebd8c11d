"""One direction of one layer over time, on plain tensors. `dispatch.scan` is the only door."""
