"""Engines execute moves. They know nothing of instruction names."""
