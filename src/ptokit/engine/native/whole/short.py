"""Little work in one call from Python: machine code that is a function of Python takes numbers and runs phases.

Through ctypes, packing the words of a block and calling code takes longer than a small gather. A form says which words
of a block the arguments of a call are, and which functions of `phases` it runs: on the calling thread, or on those of
PyTorch's OpenMP library, which begin within microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import PYFUNCTYPE, Structure, addressof, c_char_p, c_int, c_int64, c_void_p, py_object, pythonapi
from functools import cache
from typing import Any

from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrModule, IrValue
from ptokit.engine.native import openmp
from ptokit.engine.native.jit import library
from ptokit.engine.native.whole.block import AT, LANES_AT_ONCE, MOST_IDLE, MOST_WORKERS, ArgumentBlock
from ptokit.engine.native.workers import Stop

HEAD = ("arguments", "begin", "write", "refuses", "lanes")
"""The words of a form: the number of arguments, two functions or 0, whether indices outside are refused, and where in
the block the number of rows is. The place and the factor of each argument follow."""
MOST_HELD = 1 << 14
"""Elements that are moved while Python's lock is held: letting go of it takes as long as such a move."""
MOST_LANES = 1 << 14
"""Lanes that blocks for little work have memory for."""
FASTCALL = 0x80

_spare: list[ArgumentBlock] = []
"""Blocks for little work of one thread."""
_shared: list[ArgumentBlock] = []
"""Blocks for work of several threads."""


class _Method(Structure):
    library: Any
    _fields_ = (("name", c_char_p), ("code", c_void_p), ("flags", c_int), ("doc", c_char_p))


class ShortCall:
    """Code for little work. It returns False if an index must be refused."""

    def __init__(
        self, words: Sequence[tuple[str, int]], lanes: str, begin: Any, write: Any = None, *, refuses: bool
    ) -> None:
        """With the words that the arguments are, what each is multiplied by, and one phase or two."""
        pairs = [each for name, factor in words for each in (AT[name], factor)]
        second = 0 if write is None else write.address
        form = (len(words), begin.address, second, int(refuses), AT[lanes], *pairs)
        self.phases, self.descriptor = (begin, write), (c_int64 * len(form))(*form)
        self._run: Callable[..., bool] = _new(addressof(_method()), addressof(self.descriptor), None)

    def __call__(self, *given: int) -> bool:
        try:
            block = _spare.pop()
        except IndexError:
            block = _new_block(1)
        is_done = self._run(block.address, *given)
        if len(_spare) < MOST_IDLE:
            _spare.append(block)
        return is_done

    def divided(self, parts: int, piece: int, *given: int) -> bool | None:
        """The same on several threads, which take pieces of so many lanes; None if there are no threads that wait."""
        entries = openmp.entries(parts)
        if entries is None:
            return None
        try:
            block = _shared.pop()
        except IndexError:
            block = _new_block(parts)
        if block.most_workers < parts:
            block = _new_block(parts)
        fork, share = entries
        block.set(fork=fork, share=share, parts_in_all=parts, piece=piece)
        is_done = self._run(block.address, *given)
        if len(_shared) < MOST_IDLE and block.most_workers <= MOST_WORKERS:
            _shared.append(block)
        return is_done


def _new_block(workers: int) -> ArgumentBlock:
    block = ArgumentBlock(workers, Stop(), MOST_LANES)
    block.set(shards=block.address + AT["low_shard"], piece=LANES_AT_ONCE, place=block.address)
    return block


_new = PYFUNCTYPE(py_object, c_void_p, py_object, c_void_p)(("PyCFunction_NewEx", pythonapi))


@cache
def _method() -> _Method:
    """What functions point to as long as they live: it is never freed, nor is the code."""
    code = library("whole / short, shared", lambda: IrSource(_text()))
    made = _Method(b"short", code.address("short"), FASTCALL, None)
    made.library = code
    pythonapi.Py_IncRef(py_object(made))
    return made


def _text() -> str:
    code = IrModule().function("short", PTR, ((PTR, "form"), (PTR, "args"), (I64, "count")), "nounwind")
    _write(code)
    return code.module.text


def _write(code: IrBuilder) -> None:
    """A function of Python: its own object is the address of a form."""
    own, args, _ = code.arguments
    form = _number(code, own).to("inttoptr", PTR)
    count, begin, write, refuses, lanes = (code.load(I64, code.at(form, 8 * k)) for k in range(len(HEAD)))
    block = _number(code, code.load(PTR, args)).to("inttoptr", PTR)

    def word(name: str) -> IrValue:
        return code.at(block, AT[name])

    with code.loop(0, count) as k:
        value = _number(code, code.load(PTR, code.at(args, k * 8 + 8)))
        entry = code.at(form, k * 16 + 8 * len(HEAD))
        code.store(value * code.load(I64, code.at(entry, 8)), code.at(block, code.load(I64, entry)))
    code.store(code.i64(0), word("greatest"))
    capacity, width = code.load(I64, word("capacity")), code.load(I64, word("width"))
    thread = code.variable(I64, code.i64(0))
    with code.when((code.load(I64, code.at(block, lanes)) * width).compare("ugt", MOST_HELD)):
        thread.set(code.call(PTR, "PyEval_SaveThread").to("ptrtoint", I64))
    _run(code, begin, block)
    is_whole = code.load(I64, word("greatest")).compare("ult", capacity)
    code.store(is_whole.to("zext", I64), word("whole"))
    is_done = is_whole | refuses.compare("eq", 0)
    with code.when(is_done & write.compare("ne", 0)):
        code.store(capacity, word("high_shard"))
        _run(code, write, block)
    with code.when(thread.get().compare("ne", 0)):
        code.call("void", "PyEval_RestoreThread", thread.get().to("inttoptr", PTR))
    code.ret(code.call(PTR, "PyBool_FromLong", is_done.to("zext", I64)))


def _number(code: IrBuilder, given: IrValue) -> IrValue:
    """A whole number of Python's."""
    return code.call(I64, "PyLong_AsLongLong", given)


def _run(code: IrBuilder, address: IrValue, block: IrValue) -> None:
    """Call a phase, on several threads if there is a function that begins a run on them."""
    fork = code.load(I64, code.at(block, AT["fork"]))
    code.store(code.i64(0), code.at(block, AT["counter"]))

    def here() -> None:
        code.line(f"  call void {address.to('inttoptr', PTR).name}({block!r}, i64 0)")

    def on_threads() -> None:
        for name, value in (("next", code.i64(0)), ("work", address)):
            code.store(value, code.at(block, AT[name]))
        share, job = code.load(PTR, code.at(block, AT["share"])), code.at(block, AT["work"])
        code.line(f"  call void {fork.to('inttoptr', PTR).name}({share!r}, {job!r}, i32 0, i32 0)")

    code.choose(fork.compare("eq", 0), here, on_threads)
