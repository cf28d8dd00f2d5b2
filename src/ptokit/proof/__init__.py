"""Proofs over all launches of a program: what holds for every trip count, branch, block and value."""
