"""Tests that need a GPU of NVIDIA, CuPy and torch: `make test-gpu` runs them."""
