"""Gather and scatter over whole arrays, with the policies of the instruction set (profile `host`).

| file | contents |
|---|---|
| `functions.py` | `gather` and `scatter`: the short path of plain calls |
| `library_words.py` | the words of other libraries: axes, `mode`, `reduce`, other index types; along, by coordinates |
| `reductions.py` | indices of all shapes as numbers of entries; means; reductions without the values of cells |
| `execute.py` | verified calls, on an engine |
| `operands.py` | operands as arrays |
| `array_call.py` | the calls by name, their findings and advice; the words of NumPy, JAX, torch and ONNX for policies |
"""

from ptokit.ops.functions import gather, scatter
from ptokit.ops.library_words import gather_along, gather_nd, scatter_along, scatter_nd

__all__ = ["gather", "gather_along", "gather_nd", "scatter", "scatter_along", "scatter_nd"]
