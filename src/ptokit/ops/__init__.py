"""Gather and scatter over whole arrays, with the policies of the instruction set (profile `host`).

| file | contents |
|---|---|
| `calls.py` | `gather` and `scatter`: the short path of plain calls |
| `forms.py` | their other forms: axes, `mode`, `reduce`, index types that are converted; along, by coordinates |
| `reductions.py` | indices of all shapes as numbers of entries; means; reductions without the values of cells |
| `execute.py` | verified calls, on an engine |
| `operands.py` | operands as arrays |
| `call.py` | the calls by name, their findings and advice; the words of NumPy, JAX, torch and ONNX for policies |
"""

from ptokit.ops.calls import gather, scatter
from ptokit.ops.forms import gather_along, gather_nd, scatter_along, scatter_nd

__all__ = ["gather", "gather_along", "gather_nd", "scatter", "scatter_along", "scatter_nd"]
