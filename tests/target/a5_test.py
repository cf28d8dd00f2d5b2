"""The revision `a5@test`: all that differs from A5, in one file."""

from dataclasses import replace

from ptokit.isa.common import GATHER_TYPES
from ptokit.isa.dtype import dtype
from ptokit.isa.elementwise import TCI
from ptokit.isa.mgather import UB_ROW, RowKernel
from ptokit.isa.policy import TileType
from ptokit.isa.table import Revision
from ptokit.isa.tload import CLEARS
from ptokit.target.a5 import A5
from ptokit.target.profile import KB, Headers, Memory

assert A5.ub is not None

A5_TEST = replace(
    A5,
    name="a5@test",
    title="Ascend A5, a revision for tests",
    memories={**A5.memories, TileType.Vec: Memory("UB", 320 * KB)},
    ub=replace(A5.ub, size=320 * KB),
    costs={**A5.costs, "vector start cycles": 1000},
    overlapping="V",
    headers=Headers(),
    revision=Revision(
        tables={
            GATHER_TYPES: GATHER_TYPES["a5"] | {dtype("int64")},
            UB_ROW: RowKernel(lambda table: table.shape[3], lambda table, dst: table.shape[4], linear_index=True),
            CLEARS: True,
        },
        dropped=frozenset({"MG-SHAPE-05"}),
        added=frozenset({"TL-03"}),
        kernels={"tci": TCI.kernels["a2a3"]["tci"]},  # by the scalar pipe
    ),
)
