"""What a check prints of C++ kernels: lines, and how often something is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptokit.cli.commands import app
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
HEAD = """\
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int N = 1024;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
using Part = Tile<TileType::Vec, float, 1, N>;
AICORE inline void copy(__gm__ float* out, __gm__ float* x, Part& a) {
    Row from(x), to(out);
    TLOAD(a, from);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, a);
    pipe_barrier(PIPE_ALL);
}
"""


def checked(folder: Path, body: str, *options: str) -> tuple[str, int]:
    """The output and the status of a check of a kernel."""
    file = folder / "k.cpp"
    file.write_text(f"{HEAD}__global__ AICORE void k(__gm__ float* x, __gm__ float* out) {{\n{body}\n}}\n")
    done = CliRunner().invoke(app, ["check", str(file), "--target", "a5", *options])
    return done.output, done.exit_code


def found(folder: Path, body: str) -> list[dict[str, Any]]:
    """The findings of a check."""
    output, _ = checked(folder, body, "--json")
    return json.loads(output)["targets"]["a5"]["findings"]


ROUNDS = """\
    for (int i = 0; i < 8; ++i) {{
        Part a;
        TASSIGN(a, 0x1000);
        if (i == 5)
            TASSIGN(a, {address});
        copy(out + i * N, x + i * N, a);
    }}"""


@pytest.mark.parametrize(("address", "rule"), [("0x100000", "MG-BUDG-06"), ("i * 0x80000", "MG-BUDG-06")])
def test_an_address_that_is_wrong_in_one_round_is_reported_once_at_its_line(
    tmp_path: Path, address: str, rule: str
) -> None:
    body = ROUNDS.format(address=address)
    (finding,) = found(tmp_path, body)
    lines = (HEAD + "\n" + body).splitlines()
    assert finding["rule"] == rule
    assert address in lines[finding["where"]["line"] - 1]


LAUNCH = """\
    Part a;
    TASSIGN(a, 0);
    copy(out + get_block_idx() * N, x + get_block_idx() * N, a);
}
extern "C" void launch(float* x, float* out, void* stream) {
    k<<<4, nullptr, stream>>>(x, out);"""


@pytest.mark.parametrize("given", [(), ("--arg", "x=float32[1024]"), ("--fix",)])
def test_the_grid_is_that_of_the_launch(tmp_path: Path, given: tuple[str, ...]) -> None:
    """Also if it is refused, and if it is repaired."""
    output, status = checked(tmp_path, LAUNCH, *given, "--json")
    assert json.loads(output)["grid"] == 4
    if "--fix" not in given:
        text, again = checked(tmp_path, LAUNCH, *given)
        assert text.startswith("launch over 4 blocks\n")
        assert again == status == (1 if given else 0)


def test_a_run_says_that_it_does_not_judge_order(tmp_path: Path) -> None:
    checked(tmp_path, "Part a;\nTASSIGN(a, 0);\nRow from(x), to(out);\nTLOAD(a, from);\nTSTORE(to, a);")
    words = [str(tmp_path / "k.cpp"), "--target", "a5", "--arg", "x=f32[1024]", "--arg", "out=f32[1024]"]
    runs = {engine: CliRunner().invoke(app, ["run", *words, "--engine", engine]) for engine in ("native", "machine")}
    assert runs["native"].exit_code == 0
    assert runs["native"].stderr == "the engine native does not judge order: --engine machine does, and check --run\n"
    assert runs["machine"].exit_code == CliRunner().invoke(app, ["check", *words]).exit_code == 1
    assert not runs["machine"].stderr
