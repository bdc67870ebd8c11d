"""The GPU engines: CUDA kernels for a recurrent layer, compiled at run time for its size."""
