"""Functions of the device compiler that the public headers call: their pipes, and what their arguments are."""

from __future__ import annotations

from collections.abc import Iterable

from ptokit.cxx.names import ENUMS, declared

CONSTANTS = """
enum ub_addr8_t : uint8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };
enum pad_t : uint8_t { PAD_NONE };
enum atomic_type_t : uint8_t { ATOMIC_NONE, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32, ATOMIC_S8, ATOMIC_BF16 };
enum atomic_op_t : uint8_t { ATOMIC_SUM };
enum order_t : uint8_t { VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX };
namespace __cce_scalar { enum addr_cal_mode_t : uint8_t { inc, dec }; }
"""
"""Enums that headers name and kernels do not."""


def prelude(names: Iterable[str]) -> dict[str, str]:
    """Headers that a source is compiled with: enums of the device compiler, and a template for each intrinsic."""
    enums = "\n".join(declared(row) for row in ENUMS if not row.space)
    stubs = "".join(
        f'template <typename... A> inline ptokit::Zero {name}(A... a) {{ return ptokit::witness("{name}", a...); }}\n'
        for name in names
    )
    return {
        "device_enums.hpp": f"#pragma once\n#include <cstdint>\n{enums}{CONSTANTS}",
        "intrinsics.hpp": f"#pragma once\n{stubs}",
    }
