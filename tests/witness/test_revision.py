"""How a checkout differs from a revision: texts of headers, and what calls do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from ptokit.cli import headers as command
from ptokit.witness.headers import Checkout
from ptokit.witness.revision import HeaderChanges, HeaderFacts, RecordedRevision, digest
from tests.cli.shell import fine, misuse, ptokit_

HERE = Path(__file__).parent
PUBLIC = """
#include "npu/a2a3/TFlip.hpp"
namespace pto {
template <typename Tile>
PTO_INST void TFLIP(Tile& dst, Tile& src)
{
    TFLIP_IMPL(dst, src);
}
}  // namespace pto
"""
NEWER = """
template <typename Tile>
PTO_INST void TNEWER(Tile& dst)
{
}
"""
FLIP = """#pragma once
namespace pto {
template <typename Tile>
PTO_INTERNAL void TFLIP_IMPL(Tile& dst, Tile& src)
{
    static_assert(Tile::Cols == 64, "whole (or not) rows");  // as long as )
    vmuls(dst.data(), src.data(), -1.0f, (uint8_t)Tile::Rows, 1, 1, 8, 8);
}
}  // namespace pto
"""
KERNEL = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void run(__gm__ float* out)
{
    Tile<TileType::Vec, float, 2, 64> a, b;
    TASSIGN(a, 0x1000);
    TASSIGN(b, 0x2000);
    TFLIP(b, a);
}
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with an instruction and a kernel that calls it."""
    root = tmp_path_factory.mktemp("headers") / "first"
    shutil.copytree(HERE / "checkout", root)
    public = root / "include/pto/pto-inst.hpp"
    public.write_text(public.read_text() + PUBLIC)
    for path, text in (("include/pto/npu/a2a3/TFlip.hpp", FLIP), (f"{TESTS}/tflip/tflip_kernel.cpp", KERNEL)):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    return root


TESTS = command.TESTS.format("a2a3")


class HerePool:
    """A pool of no other processes."""

    def __init__(self, jobs: int, initializer: Callable[..., None], known: Sequence[object], tasks: int) -> None:
        initializer(*known)
        self.imap_unordered = map

    def __enter__(self) -> HerePool:
        return self

    def __exit__(self, *problem: object) -> None:
        pass


def run_here(checkout: Checkout, files: list[Path]) -> tuple[command.Effects, list[str]]:
    """Kernels for a2a3, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.get_context", lambda _: SimpleNamespace(Pool=HerePool))
        return command.run_kernels(checkout, "a2a3", files, 1)


@pytest.fixture(scope="module")
def revision(first: Path) -> RecordedRevision:
    checkout = Checkout.at(first)
    effects, problems = run_here(checkout, command.kernels(checkout, "a2a3", set()))
    assert not problems
    return RecordedRevision("first", "0", "today", HeaderFacts(checkout).recorded(), {"a2a3": effects, "a5": {}})  # type: ignore[arg-type]


def changed(first: Path, to: Path, file: str, *pairs: tuple[str, str]) -> Checkout:
    """A copy with other texts in a header."""
    shutil.copytree(first, to)
    path = to / "include/pto" / file
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return Checkout.at(to)


def test_the_same_headers_do_not_differ(
    first: Path, revision: RecordedRevision, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(RecordedRevision, "newest", lambda: revision)
    assert "beside first (0, today): no difference" in fine("headers", str(first))
    same = changed(first, tmp_path / "same", "npu/a2a3/TFlip.hpp", ("// as long as )", "/* other words */"))
    assert "no difference" in fine("headers", str(same.path))


def test_what_differs_is_listed(
    first: Path, revision: RecordedRevision, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkout = changed(
        first,
        tmp_path / "second",
        "npu/a2a3/TFlip.hpp",
        ("Cols == 64", "Cols == 65 - 1"),
        (
            "    vmuls(dst",
            "    set_flag(PIPE_V, PIPE_S, EVENT_ID0);\n    wait_flag(PIPE_V, PIPE_S, EVENT_ID0);\n    vmuls(dst",
        ),
    )
    public = checkout.include / "pto/pto-inst.hpp"
    text = public.read_text().replace(
        "void TNEG(Tile& dst, Tile& src)", "void TNEG(Tile& dst, Tile& src, int more = 0)"
    )
    public.write_text(f"{text}namespace pto {{{NEWER}}}\n")
    monkeypatch.setattr(RecordedRevision, "newest", lambda: revision)
    run = ptokit_("headers", str(checkout.path), "--json")
    assert run.exit_code == 1
    assert json.loads(run.output)["changes"] == {
        "instructions and forms that are new": [
            "template <typename Tile> PTO_INST void TNEG(Tile& dst, Tile& src, int more = 0)",
            "template <typename Tile> PTO_INST void TNEWER(Tile& dst)",
        ],
        "instructions that are gone, or have fewer forms": ["TNEG"],
        "assertions that are new": [
            'pto/npu/a2a3/TFlip.hpp:6: static_assert(Tile::Cols == 65 - 1, "whole (or not) rows")'
        ],
        "assertions that are gone": ["pto/npu/a2a3/TFlip.hpp: 1"],
        "headers that differ": ["pto/npu/a2a3/TFlip.hpp", "pto/pto-inst.hpp"],
        "instructions of a2a3 that these headers make": ["TFLIP"],
        "what calls do on a2a3": ["TFLIP: pipes V, flags none; now pipes V, flags V-S-0"],
    }


STOPPED = "the kernel accesses memory that it does not have (address 0x0)"


def test_other_bytes_and_refused_kernels_are_listed(first: Path, revision: RecordedRevision, tmp_path: Path) -> None:
    checkout = changed(first, tmp_path / "bytes", "npu/a2a3/TFlip.hpp", ("(uint8_t)Tile::Rows", "1"))
    changes = HeaderChanges.between(revision, facts := HeaderFacts(checkout))
    affected = changes.affected(facts, "a2a3")
    own, _ = run_here(checkout, command.kernels(checkout, "a2a3", affected, revision))
    assert command.differences(own, revision.effects["a2a3"]) == [
        "TFLIP: other bytes are read or written (tflip/tflip_kernel.cpp)"
    ]
    crash = ("    vmuls(", "    *(volatile int*)0 = 0; vmuls(")
    stops = changed(first, tmp_path / "stops", "npu/a2a3/TFlip.hpp", crash)
    stopped, (problem,) = run_here(stops, command.kernels(stops, "a2a3", affected, revision))
    assert (stopped, problem.partition(": ")[::2]) == ({}, ("tflip/tflip_kernel.cpp", STOPPED))
    unknown = changed(first, tmp_path / "unknown", "npu/a2a3/TFlip.hpp", ("vmuls(", "vmulsnew("))
    _, (problem,) = run_here(unknown, command.kernels(unknown, "a2a3", affected, revision))
    assert problem.startswith("tflip/tflip_kernel.cpp: ") and "vmulsnew" in problem


def test_only_kernels_of_changed_instructions_are_run(first: Path, revision: RecordedRevision) -> None:
    checkout = Checkout.at(first)
    assert command.kernels(checkout, "a2a3", {"TNEG"}, revision) == []
    assert len(command.kernels(checkout, "a2a3", {"TFLIP"}, revision)) == 1


def test_digests_leave_comments_and_layout_out() -> None:
    assert digest("a  b // c\n/* d */ e") == digest("a b e") != digest("ab e")
    assert digest('f("// no comment")') != digest('f("// another")')
    assert digest("f(T &dst, T<U<V> > *src)") == digest("f( T& dst,\n  T<U<V>>* src )") != digest("f(T& dst, T* src)")
    assert digest('assert(a, "one " "two")') == digest('assert(a,\n"one two")') != digest('assert(a, "onetwo")')


def test_headers_of_other_families_and_of_the_cost_model_are_left_out(first: Path, tmp_path: Path) -> None:
    shutil.copytree(first, tmp_path / "more")
    for name in ("costmodel/pto_instr.hpp", "npu/another/TFlip.hpp"):
        file = tmp_path / "more/include/pto" / name
        file.parent.mkdir()
        file.write_text(NEWER)
    assert HeaderFacts(Checkout.at(tmp_path / "more")).recorded() == HeaderFacts(Checkout.at(first)).recorded()


def test_kernels_with_one_reason_are_listed_together() -> None:
    reason = "/tmp/ptokit-cxx-1-2-x/pto/TFlip.hpp:11: error: unterminated #ifndef"
    problems = [f"{name}: {reason.replace('-x', f'-{name[0]}')}" for name in ("a/a.cpp", "b/b.cpp", "c/c.cpp")]
    assert list(command.grouped([*problems, "d/d.cpp: it has no entry"])) == [
        "a/a.cpp and 2 more: pto/TFlip.hpp:11: error: unterminated #ifndef",
        "d/d.cpp: it has no entry",
    ]


def test_a_folder_without_headers_is_misuse(tmp_path: Path) -> None:
    assert "has no include/pto/pto-inst.hpp" in misuse("headers", str(tmp_path))
