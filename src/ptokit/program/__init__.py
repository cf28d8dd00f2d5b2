"""Programs: the IR, and the checks that precede a run."""
