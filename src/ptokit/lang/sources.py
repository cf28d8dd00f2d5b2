"""Which files are C++ sources."""

SUFFIXES = (".cpp", ".cc", ".cxx", ".cce", ".asc")
"""Names of C++ sources end with one of these."""


def is_cpp(file: str) -> bool:
    """Whether a file is a C++ source, by its name."""
    return file.endswith(SUFFIXES)
