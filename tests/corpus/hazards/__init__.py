"""Kernels that have a hazard, each with a similar one that has none.

A module for each theme has its kernels and, as `CASES`, the launches that tables make of them.
"""
