"""Pages, tables and pictures for the terminal."""
