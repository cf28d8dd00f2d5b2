"""The version of ptokit."""

__version__ = "0.3.0"
