"""The Python API: tiles, tensors, targets, eager calls and kernels."""
