"""Sharded tables."""
