"""One direction of one layer over time, on plain tensors. The entry is `dispatch.scan`."""
