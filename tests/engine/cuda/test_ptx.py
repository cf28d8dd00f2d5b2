"""The kernels of the gallery as PTX; assembled where there is a CUDA toolkit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.cuda import ptx
from ptokit.engine.cuda.stage import GPU, WIDE_UNITS, GridStage
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.sample import sample
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.engine.native.program.executable import NativeExecutable
from ptokit.lang.launch import mode_of
from tests.engine.cuda.emulated import EmulatedDevice
from tests.examples.test_gallery import Entry, launch_of_each, rng

GRID = 3
WAITS = re.compile("wgmma|GMMA")
"""In what the assembler says if products are serialized, or if it adds a wait for them."""
NZ = {"blayout": "col_major", "slayout": "row_major"}


def text_of(kernel: Any, given: Mapping[str, Any], target: str, capability: int = 80) -> str:
    """The LLVM text of a kernel, for a GPU."""
    arguments, mode = kernel.bind((), given), mode_of(target)
    program = kernel.trace(arguments, mode).program
    made = NativeExecutable(program, mode.profile, mode.options)
    found = sample(program, kernel.storages(arguments), arguments.numbers, GRID)
    made._samples = {made.slots.numbers[stmt]: values for stmt, values in found.items()}
    variants = {number: made._variants(number) for number in made._samples}
    assert all(variants.values())
    chip = replace(GPU, wide_units=WIDE_UNITS.get(capability, ()))
    return Emitter(GridStage(program, made.slots, chip, EmulatedDevice.shared), variants).text()


def assembled(text: str, capability: int, where: Path, entry: str = ENTRY) -> str:
    """The PTX of a text, which the assembler takes if there is one."""
    made = ptx.compiled(text, capability)
    assert f".target sm_{capability}" in made and f".entry {entry}(" in made
    said = complaint(made, capability, where)
    assert not said, said
    return made


def complaint(made: str, capability: int, where: Path) -> str:
    """What the assembler says of PTX with errors, or with products that wait for each other where none should.

    Empty if there are none, or if there is no assembler.
    """
    if not shutil.which("ptxas"):
        return ""
    (where / "kernel.ptx").write_text(made, encoding="utf-8")
    arch = ptx.ONLY.get(capability, f"sm_{capability}")
    command = ["ptxas", f"-arch={arch}", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return f"sm_{capability}: {said}" if done.returncode or WAITS.search(said) else ""


@pytest.mark.parametrize(
    ("said", "status", "is_complaint"),
    [
        (
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to",
            0,
            True,
        ),
        ("ptxas info    : (C7517) warpgroup.wait is injected by compiler to allow use of registers of GMMA", 0, True),
        ("ptxas fatal   : Unresolved extern function", 255, True),
        ("ptxas info    : Used 199 registers, used 1 barriers", 0, False),
    ],
)
@pytest.mark.parametrize("where", ["", ">&2"], ids=["stdout", "stderr"])
def test_what_the_assembler_says_of_products_is_an_error(
    said: str, status: int, is_complaint: bool, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ptxas"
    fake.write_text(f"#!/bin/sh\necho '{said}' {where}\nexit {status}\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert (said in complaint("", 90, tmp_path)) is is_complaint


@launch_of_each(1)
def test_the_gallery_is_assembled_and_functions_with_barriers_are_convergent(
    entry: Entry, target: str, tmp_path: Path
) -> None:
    capability = 80 if target == "a2a3" else 90
    text = text_of(entry.kernel, entry.make(rng(), **entry.sizes[0]), target, capability)
    assembled(text, capability, tmp_path)
    waiting = [part for part in text.split("\ndefine ")[1:] if part.startswith("internal") and "barrier" in part]
    assert waiting and all(" convergent " in part.partition("\n")[0] for part in waiting)


@pto.kernel
def product_of(a, b, out, rows: pto.const, deep: pto.const, cols: pto.const, into: pto.const):
    (m, k), n = a.shape, b.shape[1]
    lm = pto.Tile("mat", a.dtype, rows, deep, valid=(m, k), **NZ)
    rm = pto.Tile("mat", b.dtype, deep, cols, valid=(k, n), **NZ)
    left = pto.Tile("left", a.dtype, rows, deep, valid=(m, k))
    right = pto.Tile("right", b.dtype, deep, cols, valid=(k, n))
    product = pto.Tile("acc", into, rows, cols, valid=(m, n))
    pto.tload(lm, a)
    pto.tload(rm, b)
    pto.textract(left, lm, 0, 0)
    pto.textract(right, rm, 0, 0)
    pto.tmatmul(product, left, right)
    pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out, product)


@pytest.mark.parametrize("shape", [(32, 32, 32), (17, 5, 33), (5, 1, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float32"])
def test_products_on_matrix_units(dtype: str, shape: tuple[int, int, int], tmp_path: Path) -> None:
    (m, k, n), into = shape, "int32" if dtype == "int8" else "float32"
    a, b = (np.zeros(size, getattr(ml_dtypes, dtype, dtype)) for size in ((m, k), (k, n)))
    sizes = dict(zip(("rows", "deep", "cols"), (-(-extent // 32) * 32 for extent in shape), strict=True))
    text = text_of(product_of, {"a": a, "b": b, "out": np.zeros((m, n), into), **sizes, "into": into}, "a5")
    kind = {"bfloat16": "f32.bf16", "float16": "f32.f16", "int8": "s32.s8"}.get(dtype)
    made = assembled(text, 90, tmp_path)
    assert ("mma.sync" in made) is (kind is not None) and (kind or "") in made
