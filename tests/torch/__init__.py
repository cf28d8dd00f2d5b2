"""Operators for PyTorch; skipped without it."""
