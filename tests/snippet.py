"""Source text as code whose source can be read, as if it were in a file."""

from __future__ import annotations

import linecache
from types import CodeType


def compiled(code: str, name: str) -> CodeType:
    """The text as a module; `inspect` finds its lines under the file `<name>`."""
    file = f"<{name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    return compile(code, file, "exec")
