"""ptokit: write, check and simulate PTO tile programs that move data by index.

>>> import numpy as np, ptokit as pto
>>> table = pto.GlobalTensor(np.arange(64, dtype="float32").reshape(8, 8))
>>> idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 2)).write([[5, 2]])
>>> dst = pto.Tile("vec", "float32", 2, 8)
>>> _ = pto.mgather(dst, table, idx)
>>> dst.read()[:, 0]
array([40., 16.], dtype=float32)
"""

from ptokit.finding import Finding, HazardWarning, OutOfBoundsError, VerifyError, Where
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import dyn
from ptokit.isa.policy import (
    BLayout,
    Coalesce,
    GatherExec,
    GatherOOB,
    Pad,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterIndex,
    ScatterOOB,
    SLayout,
    StoreAtomic,
    TileType,
)
from ptokit.isa.policy import GlobalLayout as Layout
from ptokit.lang.context import target
from ptokit.lang.eager import Event, mgather, mscatter, tassign, tload, tmov, tscatter, tstore
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

__version__ = "0.1.0"

__all__ = [
    "BLayout",
    "Coalesce",
    "DType",
    "Event",
    "Finding",
    "GatherExec",
    "GatherOOB",
    "GlobalTensor",
    "HazardWarning",
    "Layout",
    "OutOfBoundsError",
    "Pad",
    "SLayout",
    "ScatterAtomicOp",
    "ScatterConflict",
    "ScatterIndex",
    "ScatterOOB",
    "StoreAtomic",
    "Tile",
    "TileType",
    "VerifyError",
    "Where",
    "dtype",
    "dyn",
    "mgather",
    "mscatter",
    "target",
    "tassign",
    "tload",
    "tmov",
    "tscatter",
    "tstore",
]
