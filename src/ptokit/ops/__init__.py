"""Gather and scatter over whole arrays, with the policies of the instruction set (profile `host`).

| file | contents |
|---|---|
| `calls.py` | `gather` and `scatter`: the short path of plain calls |
| `forms.py` | their other forms: axes, `mode`, `reduce`, index types that are converted |
| `along.py` | `gather_along`, `scatter_along`, `gather_nd`, `scatter_nd` |
| `synonyms.py` | the words of NumPy, JAX, torch and ONNX for policies |
| `lanes.py` | indices of all shapes as numbers of entries |
| `reductions.py` | means, and reductions without the values that cells had |
| `execute.py` | planned calls on an engine |
| `plans.py` | verified calls, cached |
| `operands.py` | operands as arrays |
| `call.py` | the calls by name, their findings and advice |
"""

from ptokit.ops.along import gather_along, gather_nd, scatter_along, scatter_nd
from ptokit.ops.calls import gather, scatter

__all__ = ["gather", "gather_along", "gather_nd", "scatter", "scatter_along", "scatter_nd"]
