"""Programs as C++ for the vendor's toolchain.

| file | what it knows |
|---|---|
| `source.py` | the file: head, kernel, launch |
| `ready.py`, `headers.py` | what comes first: verification, addresses, flags; what the vendor's headers refuse |
| `columns.py`, `slices.py` | what they refuse of column reductions, expansions and slices |
| `simulator.py` | what the vendor's CPU simulator computes otherwise |
| `barriers.py` | barriers between vector instructions, where the pipe does not keep them in order |
| `scatter.py` | scatters by row as scatters by offset, which is what the headers do |
| `body.py` | the kernel, statement by statement |
| `types.py`, `calls.py` | tiles and tensors as types; calls |
| `expr.py`, `names.py` | expressions; safe names |
"""

from ptokit.text.cpp.source import emit

__all__ = ["emit"]
