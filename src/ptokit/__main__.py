"""`python -m ptokit` is the `ptokit` command."""

from ptokit.cli import main

main()
