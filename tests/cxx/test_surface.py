"""What kernels record through the headers, line by line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.compile import DEBUG, PLAIN, Build, CompileError, CompileOptions, compile_source, find_compiler
from ptokit.cxx.folders import generated_headers
from ptokit.cxx.names import OWN, macros_of
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.opaque import ROWS

HERE = Path(__file__).parent

RUN = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL).print_entry(sys.argv[2].encode())
"""

try:
    COMPILER = find_compiler()
except CompileError:
    pytest.skip("no C++ compiler", allow_module_level=True)


@pytest.fixture(scope="module")
def build() -> Iterator[Build]:
    with compile_source(HERE / "surface.cpp", options=CompileOptions(flags=("-fno-sanitize=thread",))) as made:
        yield made


@pytest.fixture(scope="module")
def program(build: Build) -> Path:
    """The kernels with a recorder that prints."""
    path = build.folder / "printing.so"
    sources = [str(build.folder / "any.o"), str(HERE / "printing.cpp")]
    options = [
        "-std=c++20",
        *DEBUG,
        *PLAIN,
        *(f"-D{name}" for name in macros_of("a2a3", "VEC", "CUBE")),
        "-I",
        str(OWN),
        "-I",
        str(generated_headers()),
        "-I",
        str(generated_headers() / "own"),
        "-shared",
        "-o",
        str(path),
    ]
    subprocess.run([*COMPILER.command, *options, *sources], check=True, timeout=120)
    return path


def recorded(program: Path, entry: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(program), entry], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def bits(value: float, kind: type[np.floating] = np.float16) -> str:
    return f"{kind(value).view('u2' if kind is np.float16 else 'u4'):x}"


def test_entries_have_types_names_and_lines(build: Build) -> None:
    entries = {entry.name: entry for entry in build.entries}
    assert list(entries) == [
        "LaunchAdd<float, 8, 16>", "LaunchAdd<aclFloat16, 16, 16>", "inner::scalars", "inner::launch_scalars", "values",
        "cube", "arithmetic",
    ]  # fmt: skip
    first = entries["LaunchAdd<aclFloat16, 16, 16>"]
    assert [(parameter.type, parameter.name) for parameter in first.parameters] == [
        ("aclFloat16*", "out"), ("aclFloat16*", "a"), ("aclFloat16*", "b"), ("void*", "stream"),
    ]  # fmt: skip
    lines = (HERE / "surface.cpp").read_text().splitlines()
    assert all(entry.function.split("<")[0] in lines[entry.line - 1] for entry in build.entries)
    assert [name for name, entry in entries.items() if entry.kind == "kernel"] == [
        "inner::scalars",
        "values",
        "cube",
        "arithmetic",
    ]


def test_events_become_flags_with_new_numbers_in_each_block(program: Path) -> None:
    block = [
        "tassign vec:f32[8x16 of 8x16]@0 u64:0", "tassign vec:f32[8x16 of 8x16]@0x1000 u64:1000",
        "tload vec:f32[8x16 of 8x16]@0 gm1+0:f32(1,1,1,8,16;1,1,1,16,1)0/0",
        "tload vec:f32[8x16 of 8x16]@0x1000 gm2+0:f32(1,1,1,8,16;1,1,1,16,1)0/0",
        "set_flag PIPE_MTE2 PIPE_V i64:0", "wait_flag PIPE_MTE2 PIPE_V i64:0",
        "tadd vec:f32[8x16 of 8x16]@0 vec:f32[8x16 of 8x16]@0 vec:f32[8x16 of 8x16]@0x1000",
        "set_flag PIPE_V PIPE_MTE3 i64:0", "wait_flag PIPE_V PIPE_MTE3 i64:0",
        "tstore gm0+0:f32(1,1,1,8,16;1,1,1,16,1)0/0 vec:f32[8x16 of 8x16]@0",
    ]  # fmt: skip
    assert recorded(program, "LaunchAdd<float, 8, 16>") == ["launch add<T, R, C> 2", *block, *block]
    assert "f16[16x16" in recorded(program, "LaunchAdd<aclFloat16, 16, 16>")[1]


@pytest.mark.parametrize("entry", ["inner::scalars", "inner::launch_scalars"])
def test_scalars_values_and_flags(program: Path, entry: str) -> None:
    row, part = "vec:i32[1x8 of 1x8]@0x40", "vec:i32[1x8 of 1x8]@0x50"
    name = "scalars" if "launch" in entry else "inner::scalars"

    def block(index: int) -> list[str]:
        return [
            f"tassign {row} u64:40", f"tassign {part} u64:50 {row}", f"setvalue {row} 3", f"getvalue {row} 3",
            f"tadds {row} {row} i32:{2 + index}", f"tmuls {part} {row} i32:2", "set_flag PIPE_V PIPE_MTE3 i64:1",
            "wait_flag PIPE_V PIPE_MTE3 i64:1", "pipe_barrier PIPE_ALL",
            f"tstore {array}+32:i32(1,1,1,1,2;1,1,1,8,1)0/118 {row} atomic=add",
        ]  # fmt: skip

    array = "gm0" if "launch" in entry else "gm1"
    assert recorded(program, entry) == [f"launch {name} 2", *block(0), *block(1)]


def test_template_values_and_modes_are_modifiers(program: Path) -> None:
    tile, index = "vec:f16[16x16 of 16x16]@0/pad2:0", "vec:i32[1x16 of 1x16]@0x200"
    table = "gm1+0:f16(1,1,1,16,16;256,256,256,16,1)0/0"
    mask = "vec:u8[16x32 of 16x32]@0x240"
    assert recorded(program, "values")[4:13] == [
        f"mgather {tile} {table} {index} coalesce=row oob=clamp",
        f"mscatter {table} {tile} {index} coalesce=row atomic=add",
        f"tcvt {index} {index} round=floor saturation=off", f"tcmps {mask} {tile} f16:{bits(0.5)} mode=ge",
        f"tci {index} i32:3 descending=1", f"texpands {tile} f16:{bits(1)}", "pipe_barrier PIPE_MTE2",
        f"tassign {tile} u64:0", f"tassign {index} u64:200",
    ]  # fmt: skip


def test_layouts_of_the_cube(program: Path) -> None:
    lines = recorded(program, "cube")[5:11]
    l1, left, right = (
        "mat:f16[32x32 of 32x32]@0/11/512",
        "left:f16[32x32 of 32x32]@0/01/512",
        "right:f16[32x32 of 32x32]@0/02/512",
    )
    acc = "acc:f32[32x32 of 32x32]@0/11/1024"
    assert lines == [
        f"tload {l1} gm1+0:f16(1,2,2,16,16;1024,512,256,16,1)2/0", f"tmov {left} {l1}",
        f"textract {right} {l1} i32:0 i32:0",
        f"tmatmul {acc} {left} {right} phase=final", f"tmatmul_acc {acc} {acc} {left} {right}",
        f"tstore gm2+0:f32(1,1,1,32,32;1024,1024,1024,32,1)0/1e0 {acc} phase=final atomic=none",
    ]  # fmt: skip


def test_small_numbers_round_as_numpy_does(program: Path) -> None:
    found = [line.split("f16:")[-1] for line in recorded(program, "arithmetic")[2:7]]
    product = np.float16(np.float32(np.float16(0.1)) * np.float32(3))
    assert found == [bits(2048), bits(1), bits(product), bits(144), bits(3 + 0.5 - 6)]


def test_all_instructions_are_declared(tmp_path: Path) -> None:
    """Each is a name that C++ knows, of the catalogue and of those that are known by their effects only."""
    known = {each.text.variant_of or each.name for each in INSTRUCTIONS.values()} | {
        row.name for row in ROWS if row.in_cpp
    }
    apart = {"tput", "tget", "tput_async", "tget_async", "tbroadcast", "treduce", "tnotify", "twait", "ttest"}
    source = tmp_path / "declared.cpp"
    uses = [f"using pto::{name.upper()};" for name in sorted(known - apart)]
    uses += [f"using pto::comm::{name.upper()};" for name in sorted(apart)]
    source.write_text("\n".join(["#include <pto/pto-inst.hpp>", *uses, 'extern "C" __global__ void nothing() {}']))
    compile_source(source).close()
