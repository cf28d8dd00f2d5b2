"""Programs: what is checked before anything runs."""
