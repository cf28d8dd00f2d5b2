"""The command line: a thin main over the library. Exit status 0 fine, 1 findings, 2 misuse."""

from ptokit.cli.commands import app, main

__all__ = ["app", "main"]
