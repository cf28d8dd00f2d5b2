"""The kernels of the gallery as PTX; assembled where there is a CUDA toolkit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.cuda import ptx
from ptokit.engine.cuda.stage import GridStage
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.sample import sample
from ptokit.engine.native.program.executable import NativeExecutable
from ptokit.lang.launch import mode_of
from tests.examples.test_gallery import Entry, every_launch, rng

GRID = 3


def text_of(entry: Entry, target: str) -> str:
    """The LLVM text of a kernel of the gallery, for a GPU."""
    arguments, mode = entry.kernel.bind((), entry.make(rng(), **entry.sizes[0])), mode_of(target)
    program = entry.kernel.trace(arguments, mode).program
    made = NativeExecutable(program, mode.profile, mode.options)
    found = sample(program, entry.kernel.storages(arguments), arguments.numbers, GRID)
    made._samples = {made.slots.numbers[stmt]: values for stmt, values in found.items()}
    variants = {number: made._variants(number) for number in made._samples}
    assert all(variants.values())
    return Emitter(GridStage(program, made.slots), variants).text()


@every_launch
def test_the_gallery_is_assembled(entry: Entry, target: str, tmp_path: Path) -> None:
    capability = 80 if target == "a2a3" else 90
    made = ptx.compiled(text_of(entry, target), capability)
    assert f".target sm_{capability}" in made and ".entry run_blocks" in made
    if shutil.which("ptxas"):
        (tmp_path / "kernel.ptx").write_text(made, encoding="utf-8")
        command = ["ptxas", f"-arch=sm_{capability}", "kernel.ptx", "-o", "kernel.cubin"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
