"""The headers that a source is compiled with: enums of the device compiler, and templates for its functions."""

from __future__ import annotations

from collections.abc import Mapping

from ptokit.cxx.names import ENUMS, declared
from ptokit.target import compiler_of
from ptokit.witness.intrinsics import TABLE, Intrinsic
from ptokit.witness.registers import REGISTER_TABLE, WITH_LISTS, stubs

CONSTANTS = """
enum ub_addr8_t : uint8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };
enum pad_t : uint8_t { PAD_NONE };
enum atomic_type_t : uint8_t { ATOMIC_NONE, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32, ATOMIC_S8, ATOMIC_BF16 };
enum atomic_op_t : uint8_t { ATOMIC_SUM };
enum order_t : uint8_t { VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX };
namespace __cce_scalar { enum addr_cal_mode_t : uint8_t { inc, dec }; }
"""
"""Enums that headers name and kernels do not."""


def table_of(target: str) -> Mapping[str, Intrinsic]:
    """The functions of a target's cores."""
    compiler = compiler_of(target)
    assert compiler is not None
    return REGISTER_TABLE if compiler.macros[0] == "REGISTER_BASE" else TABLE


def prelude() -> dict[str, str]:
    """Headers that a source is compiled with: enums of the device compiler, and a template for each intrinsic."""
    enums = "\n".join(declared(row) for row in ENUMS if not row.space)
    of_memories = "".join(
        f'template <typename... A> inline ptokit::Zero {name}(A... a) {{ return ptokit::witness("{name}", a...); }}\n'
        for name in TABLE
        if name not in WITH_LISTS
    )
    return {
        "device_enums.hpp": f"#pragma once\n#include <cstdint>\n{enums}{CONSTANTS}",
        "intrinsics.hpp": f"#pragma once\n#ifdef PTOKIT_REGISTER_BASE\n{stubs()}#else\n{of_memories}#endif\n",
    }
