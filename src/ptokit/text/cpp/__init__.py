"""Programs as C++ for the vendor's toolchain. How an instruction is called is in its definition (`Instruction.cpp`).

| file | what it knows |
|---|---|
| `source.py` | preparation (verification, addresses, flags), and the file: head, kernel, launch |
| `header_checks.py` | what the vendor's headers reject, and what they compute differently |
| `barriers.py` | barriers between vector instructions that may overlap |
| `scatter.py` | scatters by row as scatters by offset, which is what the headers do |
| `body.py` | the kernel, statement by statement |
| `types.py` | tiles and tensors as types; calls |
| `expr.py` | expressions; safe names |
"""

from ptokit.text.cpp.source import emit, emit_unchecked

__all__ = ["emit", "emit_unchecked"]
