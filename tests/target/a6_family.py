"""The family `a6`: like A5, but for what stands here. Nothing else in ptokit names it."""

from dataclasses import replace

from ptokit.isa.common import LONG
from ptokit.isa.elementwise import ADD_TYPES, TCI
from ptokit.isa.mgather import UB_ROW, RowKernel
from ptokit.isa.policy import TileType
from ptokit.isa.table import Revision
from ptokit.isa.tmatmul import LEFT_FORMS
from ptokit.target.a5 import A5
from ptokit.target.profile import KB, CrossCalls, DeviceCompiler, Headers, Memory

assert A5.ub is not None

A6 = replace(
    A5,
    name="a6",
    like="a5",
    title="Ascend A6, a family for tests",
    memories={**A5.memories, TileType.Vec: Memory("UB", 512 * KB)},
    ub=replace(A5.ub, size=512 * KB),
    costs={**A5.costs, "vector start cycles": 1000},
    arch="a6",
    overlapping="V",
    headers=Headers(
        cross=CrossCalls("set_pair({pipe}, {id})", "wait_pair({pipe}, {id})"),
        compiler=DeviceCompiler(410, 4510, ("REGISTER_BASE", "PTO_NPU_ARCH_A6")),
    ),
    revision=Revision(
        tables={
            ADD_TYPES: ADD_TYPES["a5"] - LONG,
            LEFT_FORMS: ("zz",),
            UB_ROW: RowKernel(lambda table: table.shape[3], lambda table, dst: table.shape[4], linear_index=True),
        },
        dropped=frozenset({"MG-SHAPE-05"}),
        kernels={"tci": TCI.kernels["a2a3"]["tci"]},  # by the scalar pipe
    ),
)
