"""A device whose lanes are threads of the CPU: they meet at barriers, and multiply matrices together.

`Warp.multiply` has the fragments of `mma.sync.m16n8k16` (16 bits) and `.m16n8k32` (8 bits) as the PTX ISA lists them.
`WarpGroup` multiplies tiles in shared memory as `wgmma` does: it finds them by the descriptors of the PTX ISA. Data of
an asynchronous copy arrives at once, or when a thread waits for it: every other piece.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from threading import Barrier, Thread, local
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.engine.cuda.device import DeviceKernel, DeviceModule
from ptokit.engine.llvm.emit import Chip
from ptokit.engine.native import jit
from tests.engine.cuda.emulated import ALIGNED_SHARED, EmulatedBuffer, EmulatedDevice, check_margins, library

LANES, WARP, WAIT = 64, 32, 60
TYPES: dict[str, tuple[Any, str]] = {
    "bfloat16": (ml_dtypes.bfloat16, "float"),
    "float16": (np.float16, "float"),
    "int8": (np.int8, "i32"),
}
THREADED = Chip(
    lanes=LANES,
    lane="lane",
    barrier="meet",
    any="any",
    piece=16,
    units=tuple((name, (f"multiply_{name}", "i32")) for name in TYPES),
)
WIDE = Chip(
    lanes=128, lane="lane", barrier="meet", any="any", piece=16, units=THREADED.units,
    wide_units=("bfloat16", "float16"),
)  # fmt: skip
GROUP = 128
Words = np.ndarray[Any, Any]


class Warp:
    """Threads that multiply together."""

    def __init__(self) -> None:
        self.barrier = Barrier(WARP)
        self.words: list[Words] = [np.zeros(0, np.int32)] * WARP

    def multiply(self, lane: int, words: Words, name: str) -> None:
        """Each lane gives six words of operands and four sums, which are replaced."""
        self.words[lane] = words
        if self.barrier.wait(WAIT) == 0:
            self._multiplied(*TYPES[name])
        self.barrier.wait(WAIT)

    def _multiplied(self, given: Any, kind: str) -> None:
        each = 4 // np.dtype(given).itemsize  # elements of a word
        a, b = np.zeros((16, 8 * each)), np.zeros((8 * each, 8))
        for lane, words in enumerate(self.words):
            g, t = divmod(lane, 4)
            for k, values in enumerate(words[:6].view(given).reshape(6, each).astype(float)):
                at = each * (t + 4 * (k // 2 if k < 4 else k - 4))
                if k < 4:
                    a[g + 8 * (k % 2), at : at + each] = values
                else:
                    b[at : at + each, g] = values
        product = a @ b
        for lane, words in enumerate(self.words):
            g, t = divmod(lane, 4)
            sums = words[6:].view(np.float32 if kind == "float" else np.int32)
            for k in range(4):
                sums[k] += product[g + 8 * (k // 2), 2 * t + k % 2]


class WarpGroup:
    """Threads that multiply 64 x 16 by 16 x n, a few times, and find the tiles unchanged when they wait for it."""

    def __init__(self, block: Block) -> None:
        self.block, self.barrier = block, Barrier(GROUP)
        self.given: list[Words] = [np.zeros(0, np.int64)] * GROUP
        self.pending: list[tuple[Words, list[Words]]] = []

    def multiply(self, lane: int, words: Words, kind: str, n: int, steps: int) -> None:
        """Each lane gives n / 2 sums, which are replaced, whether they are kept, and descriptors of both sides."""
        self.given[lane] = words
        if self.barrier.wait(WAIT) == 0:
            self._multiplied(ml_dtypes.bfloat16 if kind == "bf16" else np.float16, n, steps)
        self.barrier.wait(WAIT)

    def finish(self, later: int) -> None:
        """All lanes wait for the products, but for the last ones."""
        if self.barrier.wait(WAIT) == 0:
            for descriptors, tiles in self.pending:
                self.block.torn |= not all(map(np.array_equal, self._tiles(descriptors, tiles[1].shape[1]), tiles))
            self.pending = self.pending[len(self.pending) - later :]
        self.barrier.wait(WAIT)

    def _tiles(self, descriptors: Words, n: int) -> list[Words]:
        steps = len(descriptors) // 2
        left = [self._tile(each, *np.mgrid[:64, :16], along_k=True) for each in descriptors[:steps]]
        right = [self._tile(each, *np.mgrid[:16, :n], along_k=False) for each in descriptors[steps:]]
        return [np.hstack(left), np.vstack(right)]

    def _tile(self, descriptor: int, i: Words, j: Words, *, along_k: bool) -> Words:
        """The elements of a side: one that lies along k has one panel of it."""
        start, leading, stride = (((int(descriptor) >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
        width = {1: 128, 2: 64, 3: 32}[int(descriptor) >> 62 & 3]
        at = start + i // 8 * stride + i % 8 * width + 2 * j % width + (0 if along_k else 2 * j // width * leading)
        at ^= at >> 7 << 4 & (width - 16)
        first = self.block.shared + (at - self.block.shared) % (1 << 18)
        memory = np.ctypeslib.as_array((ctypes.c_uint16 * (1 << 17)).from_address(self.block.shared))
        return memory[(first - self.block.shared) // 2]

    def _multiplied(self, given: Any, n: int, steps: int) -> None:
        descriptors = self.given[0][n // 2 + 1 :]
        tiles = self._tiles(descriptors, n)
        a, b = (tile.view(given).astype(float) for tile in tiles)
        self.pending.append((descriptors.copy(), tiles))
        product = a @ b
        assert all((words[n // 2 :] == self.given[0][n // 2 :]).all() for words in self.given)
        for lane, words in enumerate(self.given):
            (warp, rest), sums = divmod(lane, WARP), words[: n // 2]
            g, t = divmod(rest, 4)
            at = np.arange(n // 2)
            found = product[16 * warp + g + at // 2 % 2 * 8, at // 4 * 8 + 2 * t + at % 2].astype(np.float32)
            kept = sums.astype(np.int32).view(np.float32) if words[n // 2] else 0
            sums[:] = (kept + found).view(np.int32)


class Block:
    """The threads of a block, and the functions that their code calls."""

    def __init__(self, lanes: int = LANES) -> None:
        self.lanes = lanes
        self.own, self.barrier, self.warps = local(), Barrier(lanes), [Warp() for _ in range(lanes // WARP)]
        self.groups = [WarpGroup(self) for _ in range(lanes // GROUP)]
        self.shared, self.torn = 0, False
        self.bits = [False] * lanes
        self.called: dict[str, Any] = {
            "lane": ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self.own.lane),
            "meet": ctypes.CFUNCTYPE(None)(lambda: self.barrier.wait(WAIT) and None),
            "any": ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int32, ctypes.c_bool)(self.any),
            "begin_copy": ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, ctypes.c_int32)(self.begin_copy),
            "close_group": ctypes.CFUNCTYPE(None)(lambda: self.own.copies.append([])),
            "await_groups": ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.await_groups),
            "finish": ctypes.CFUNCTYPE(None, ctypes.c_int32)(lambda n: self.groups[self.own.lane // GROUP].finish(n)),
            "begin": ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int32] * 3)(self.begin),
        }
        for name in TYPES:
            self.called[f"multiply_{name}"] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.multiply(name))

    def any(self, _number: int, bit: bool) -> bool:
        self.barrier.wait(WAIT)
        self.bits[self.own.lane] = bit
        self.barrier.wait(WAIT)
        return any(self.bits)

    def begin_copy(self, into: int, at: int, nbytes: int) -> None:
        assert into % 16 == 0 and at % 16 == 0
        if into // 16 % 2:
            self.copy(into, at, nbytes)
        else:
            self.own.copies[-1].append((into, at, nbytes))

    def copy(self, into: int, at: int, nbytes: int) -> None:
        ctypes.memmove(into, bytes(ctypes.string_at(at, nbytes)).ljust(16, b"\0"), 16)

    def await_groups(self, later: int) -> None:
        *groups, last = self.own.copies
        arrived = groups[: len(groups) - later]
        for copy in (copy for group in arrived for copy in group):
            self.copy(*copy)
        self.own.copies = [*groups[len(arrived) :], last]

    def begin(self, address: int, bits: int, n: int, steps: int) -> None:
        group, lane = divmod(self.own.lane, GROUP)
        words = np.ctypeslib.as_array((ctypes.c_int64 * (n // 2 + 1 + 2 * steps)).from_address(address))
        self.groups[group].multiply(lane, words, "bf16" if bits else "f16", n, steps)

    def multiply(self, name: str) -> Callable[[int], None]:
        def multiply(address: int) -> None:
            warp, lane = divmod(self.own.lane, WARP)
            self.warps[warp].multiply(lane, np.ctypeslib.as_array((ctypes.c_int32 * 10).from_address(address)), name)

        return multiply

    def text(self, declared: Iterable[str]) -> dict[str, str]:
        """The definitions of the functions that are declared, by name."""
        at = {name: f"inttoptr (i64 {ctypes.cast(f, ctypes.c_void_p).value} to ptr)" for name, f in self.called.items()}
        plain = {
            "lane": f"define i32 @lane() {{\n%r = call i32 {at['lane']}()\nret i32 %r\n}}",
            "meet": f"define void @meet() {{\ncall void {at['meet']}()\nret void\n}}",
            "any": "define i1 @any(i32 %n, i1 %b) {\n"
            f"%r = call zeroext i1 {at['any']}(i32 %n, i1 zeroext %b)\nret i1 %r\n}}",
        }
        copy = "define void @begin_copy(ptr %i, ptr %a, i32 %n)"
        plain |= {
            "begin_copy": f"{copy} {{\ncall void {at['begin_copy']}(ptr %i, ptr %a, i32 %n)\nret void\n}}",
            "close_group": f"define void @close_group() {{\ncall void {at['close_group']}()\nret void\n}}",
        }
        for name in declared:
            if found := re.fullmatch(r"await_groups_(\d+)", name):
                plain[name] = f"define void @{name}() {{\ncall void {at['await_groups']}(i32 {found[1]})\nret void\n}}"
            elif found := re.fullmatch(r"multiplied_(\d+)_(\d+)", name):
                plain[name] = _over(name, int(found[1]), 0, f"call void {at['finish']}(i32 {found[2]})")
            elif found := re.fullmatch(r"multiply_(b?)f16_(\d+)_(\d+)", name):
                n, steps = int(found[2]), int(found[3])
                call = f"call void {at['begin']}(ptr %words, i32 {int(bool(found[1]))}, i32 {n}, i32 {steps})"
                plain[name] = _over(name, n // 2, 2 * steps, call)
        return plain | {f"multiply_{name}": _unit(name, kind, at) for name, (_, kind) in TYPES.items()}

    def run(self, function: Callable[..., None], given: Sequence[int]) -> None:
        self.shared, self.torn = given[-1], False

        def lane(number: int) -> None:
            self.own.lane, self.own.copies = number, [[]]
            function(*given)

        threads = [Thread(target=lane, args=(number,)) for number in range(self.lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.torn, "a tile was changed while it was multiplied"


def _over(name: str, sums: int, sides: int, call: str) -> str:
    """An instruction over sums, whether they are kept, and descriptors: as words of 64 bits in memory."""
    kinds = ["float"] * sums + (["i32"] + ["i64"] * sides if sides else [])
    result = "{" + ", ".join(["float"] * sums) + "}"
    lines = [f"define {result} @{name}({', '.join(f'{k} %p{n}' for n, k in enumerate(kinds))}) {{"]
    lines += [f"%words = alloca [{len(kinds)} x i64]"]
    for n, each in enumerate(kinds):
        lines += [f"%a{n} = getelementptr i64, ptr %words, i64 {n}", f"store i64 0, ptr %a{n}"]
        lines += [f"store {each} %p{n}, ptr %a{n}"]
    lines += [call]
    made = "poison"
    for n in range(sums):
        lines += [f"%s{n} = load float, ptr %a{n}", f"%r{n} = insertvalue {result} {made}, float %s{n}, {n}"]
        made = f"%r{n}"
    return "\n".join([*lines, f"ret {result} {made}", "}"])


def _unit(name: str, kind: str, at: dict[str, str]) -> str:
    """An instruction of the matrix units: operands and sums go through memory."""
    kinds = ["i32"] * 6 + [kind] * 4
    result = "{" + ", ".join([kind] * 4) + "}"
    lines = [f"define {result} @multiply_{name}({', '.join(f'{k} %p{n}' for n, k in enumerate(kinds))}) {{"]
    lines += ["%words = alloca [10 x i32]"]
    for n, each in enumerate(kinds):
        lines += [f"%a{n} = getelementptr i32, ptr %words, i64 {n}", f"store {each} %p{n}, ptr %a{n}"]
    lines += [f"call void {at[f'multiply_{name}']}(ptr %words)"]
    made = "poison"
    for n in range(4):
        lines += [f"%s{n} = load {kind}, ptr %a{n + 6}"]
        lines += [f"%r{n} = insertvalue {result} {made}, {kind} %s{n}, {n}"]
        made = f"%r{n}"
    return "\n".join([*lines, f"ret {result} {made}", "}"])


class ThreadedDevice(EmulatedDevice):
    """Blocks one after the other, lanes as threads."""

    chip = THREADED

    def module(self, key: str, build: Callable[[], jit.IrSource]) -> DeviceModule:
        return _ThreadedModule(build())


class _ThreadedModule:
    def __init__(self, source: jit.IrSource) -> None:
        lanes = re.search(r'"nvvm.maxntid"="(\d+)"', source.text)
        assert lanes
        self._block, self.facts = Block(int(lanes[1])), source.facts
        lines = source.text.splitlines()
        names = {line: line.partition("@")[2].partition("(")[0] for line in lines if line.startswith("declare")}
        defined = self._block.text(names.values())
        text = "\n".join(defined.get(names.get(line, ""), line) for line in lines)
        self._library = library(f"threads {text}", lambda: jit.IrSource(text))

    def kernel(self, name: str) -> DeviceKernel:
        return _ThreadedKernel(self._block, self._library, name)


class _ThreadedKernel:
    def __init__(self, block: Block, library: jit.Library, name: str) -> None:
        self._block, self._library, self._address = block, library, library.address(name)

    def __call__(self, grid: int, arguments: Sequence[int], shared: int = 0) -> None:
        memory = EmulatedBuffer(shared, ALIGNED_SHARED)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (len(arguments) + 3))
        for number in range(grid):
            self._block.run(kind(self._address), [*arguments, number, grid, memory.address])
        check_margins()

    def fitting(self, shared: int = 0) -> int:
        return EmulatedDevice.processors


class WideDevice(ThreadedDevice):
    """The same with lanes that multiply tiles in shared memory."""

    chip = WIDE
