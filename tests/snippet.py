"""Source text as code whose source can be read, as if it were in a file."""

from __future__ import annotations

import linecache
from types import CodeType

KERNELS = """\
@pto.kernel(mode="manual")
def racy(x, out):
    t = pto.Tile("vec", "float32", 8, 8, addr=0)
    pto.tload(t, x)
    pto.tstore(out, t)


@pto.kernel
def copy(x, out):
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tstore(out, t)


@pto.kernel
def pick(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 8)
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(index, ids)
    pto.mgather(t, table, index)
    pto.tstore(out, t)
"""
"""A kernel with a race, a copy, and a gather, for modules that tests write."""


def compiled(code: str, name: str) -> CodeType:
    """The text as a module; `inspect` finds its lines under the file `<name>`."""
    file = f"<{name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    return compile(code, file, "exec")
