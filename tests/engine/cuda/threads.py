"""A device whose lanes are threads of the CPU: they meet at barriers, and multiply matrices together.

`Warp.multiply` has the fragments of `mma.sync.m16n8k16` (16 bits) and `.m16n8k32` (8 bits) as the PTX ISA lists them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Barrier, Thread, local
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.engine.cuda.device import DeviceKernel, DeviceModule
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.native import jit
from tests.engine.cuda.emulated import EmulatedDevice, _EmulatedBuffer

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


class Block:
    """The threads of a block, and the functions that their code calls."""

    def __init__(self) -> None:
        self.own, self.barrier, self.warps = local(), Barrier(LANES), [Warp() for _ in range(LANES // WARP)]
        self.bits = [False] * LANES
        self.called: dict[str, Any] = {
            "lane": ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self.own.lane),
            "meet": ctypes.CFUNCTYPE(None)(lambda: self.barrier.wait(WAIT) and None),
            "any": ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int32, ctypes.c_bool)(self.any),
        }
        for name in TYPES:
            self.called[f"multiply_{name}"] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.multiply(name))

    def any(self, _number: int, bit: bool) -> bool:
        self.barrier.wait(WAIT)
        self.bits[self.own.lane] = bit
        self.barrier.wait(WAIT)
        return any(self.bits)

    def multiply(self, name: str) -> Callable[[int], None]:
        def multiply(address: int) -> None:
            warp, lane = divmod(self.own.lane, WARP)
            self.warps[warp].multiply(lane, np.ctypeslib.as_array((ctypes.c_int32 * 10).from_address(address)), name)

        return multiply

    def text(self) -> dict[str, str]:
        """The definitions of the functions, by name."""
        at = {name: f"inttoptr (i64 {ctypes.cast(f, ctypes.c_void_p).value} to ptr)" for name, f in self.called.items()}
        plain = {
            "lane": f"define i32 @lane() {{\n%r = call i32 {at['lane']}()\nret i32 %r\n}}",
            "meet": f"define void @meet() {{\ncall void {at['meet']}()\nret void\n}}",
            "any": "define i1 @any(i32 %n, i1 %b) {\n"
            f"%r = call zeroext i1 {at['any']}(i32 %n, i1 zeroext %b)\nret i1 %r\n}}",
        }
        return plain | {f"multiply_{name}": _unit(name, kind, at) for name, (_, kind) in TYPES.items()}

    def run(self, function: Callable[..., None], given: Sequence[int]) -> None:
        def lane(number: int) -> None:
            self.own.lane = number
            function(*given)

        threads = [Thread(target=lane, args=(number,)) for number in range(LANES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


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
        self._block = Block()
        defined = self._block.text()
        lines = source.text.splitlines()
        names = {line: line.partition("@")[2].partition("(")[0] for line in lines if line.startswith("declare")}
        text = "\n".join(defined.get(names.get(line, ""), line) for line in lines)
        self._library = jit.library(f"threads {text}", lambda: jit.IrSource(text))

    def kernel(self, name: str) -> DeviceKernel:
        return _ThreadedKernel(self._block, self._library, name)


class _ThreadedKernel:
    def __init__(self, block: Block, library: jit.Library, name: str) -> None:
        self._block, self._library, self._address = block, library, library.address(name)

    def __call__(self, grid: int, arguments: Sequence[int], shared: int = 0) -> None:
        memory: Any = _EmulatedBuffer(shared)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (len(arguments) + 3))
        for number in range(grid):
            self._block.run(kind(self._address), [*arguments, number, grid, memory.address])

    def fitting(self, shared: int = 0) -> int:
        return EmulatedDevice.processors
