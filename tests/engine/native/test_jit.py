"""LLVM text to machine code: it runs, it is compiled once, and bad text is an error."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ptokit
from ptokit import _version

pytest.importorskip("llvmlite")

from ptokit.engine.llvm import compiled, store
from ptokit.engine.llvm.compiled import CodeCache, IrSource, JitError
from ptokit.engine.native import jit
from ptokit.engine.native.jit import library

HOME = str(Path(ptokit.__file__).parent.parent)
ADD = "define i64 @add(i64 %a, i64 %b) {\n  %sum = add i64 %a, %b\n  ret i64 %sum\n}\n"
I64, F64, PTR = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty caches in memory and on disk."""
    monkeypatch.setenv("PTOKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(jit._libraries, "_kept", {})


def forget() -> None:
    """As in a new process."""
    jit._libraries.clear()


class Builder:
    """Builds a text, and counts how often."""

    def __init__(self, text: str = ADD, **facts: object) -> None:
        self.source, self.calls = IrSource(text, facts), 0

    def __call__(self) -> IrSource:
        self.calls += 1
        return self.source


def function(made: jit.Library, name: str, result: type, *parameters: type) -> ctypes._CFunctionType:
    return ctypes.CFUNCTYPE(result, *parameters)(made.address(name))


def added(made: jit.Library) -> int:
    return function(made, "add", I64, I64, I64)(40, 2)


def returning(number: int) -> str:
    return f"define i64 @number() {{\n  ret i64 {number}\n}}\n"


# --- code runs -------------------------------------------------------------------------------------------------


def test_code_runs() -> None:
    assert added(library("add", Builder())) == 42


@pytest.mark.parametrize("name", ["exp", "log"])
def test_functions_of_the_mathematical_library(name: str) -> None:
    text = f"declare double @{name}(double)\ndefine double @f(double %x) {{\n"
    text += f"  %y = call double @{name}(double %x)\n  ret double %y\n}}\n"
    call = function(library(name, lambda: IrSource(text)), "f", F64, F64)
    for x in (0.1, 1.0, 2.5, 300.0):
        assert call(x) == getattr(math, name)(x)


MEMORY = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @f(ptr %to, ptr %from, i64 %bytes) {
  %rest = getelementptr i8, ptr %to, i64 %bytes
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %rest, i8 7, i64 %bytes, i1 false)
  ret void
}
"""


def test_memory_is_copied_and_filled() -> None:
    source, target = np.arange(100, dtype=np.uint8), np.zeros(201, np.uint8)
    call = function(library("memory", lambda: IrSource(MEMORY)), "f", None, PTR, PTR, I64)  # type: ignore[arg-type]
    call(target.ctypes.data, source.ctypes.data, 100)
    assert target.tolist() == [*range(100), *[7] * 100, 0]


VECTORS = """
define void @f(ptr %a, ptr %b) alwaysinline {
  %x = load <8 x half>, ptr %a, align 2
  %y = load <8 x half>, ptr %b, align 2
  %sum = fadd <8 x half> %x, %y
  store <8 x half> %sum, ptr %a, align 2
  ret void
}
define void @g(ptr %a, ptr %b) {
  %slot = alloca ptr
  store ptr %a, ptr %slot
  %same = load ptr, ptr %slot
  call void @f(ptr %same, ptr %b)
  call void @f(ptr %same, ptr %b)
  ret void
}
"""


def test_half_vectors_round_at_every_step() -> None:
    a, b = np.full(8, 2048, np.float16), np.arange(8, dtype=np.float16)
    expected = (a + b) + b
    function(library("vectors", lambda: IrSource(VECTORS)), "g", None, PTR, PTR)(a.ctypes.data, b.ctypes.data)  # type: ignore[arg-type]
    assert a.tolist() == expected.tolist()


TABLES = """
@squares = private constant [5 x i64] [i64 0, i64 1, i64 4, i64 9, i64 16], align 64
@counter = global i64 5
define i64 @square(i64 %x) {
  %cell = getelementptr i64, ptr @squares, i64 %x
  %y = load i64, ptr %cell
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %y
}
"""


def test_tables_and_variables() -> None:
    made = library("tables", lambda: IrSource(TABLES))
    call = function(made, "square", I64, I64)
    assert [call(x) for x in range(5)] == [0, 1, 4, 9, 16]
    assert I64.from_address(made.address("counter")).value == 10


# --- made once -------------------------------------------------------------------------------------------------


def test_code_is_built_once_in_a_process() -> None:
    build = Builder()
    assert library("key", build) is library("key", build)
    assert build.calls == 1
    assert library("another key", build) is not library("key", build)
    assert build.calls == 2


def test_code_is_built_once_on_a_machine() -> None:
    build = Builder(symbols=("add",), sizes={"tile": 3})
    first = library("key", build)
    forget()
    second = library("key", build)
    assert build.calls == 1
    assert added(first) == added(second) == 42
    assert first.facts == second.facts == {"symbols": ["add"], "sizes": {"tile": 3}}


def test_without_a_cache_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTOKIT_CACHE", "off")
    build = Builder()
    assert added(library("key", build)) == added(library("key", build)) == 42
    forget()
    assert added(library("key", build)) == 42
    assert build.calls == 2
    assert [*tmp_path.iterdir()] == []


def test_a_damaged_file_is_replaced() -> None:
    build = Builder()
    library("key", build)
    place = store.folder()
    assert place is not None
    (file,) = place.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:200] + b"\xff" + whole[201:]):
        file.write_bytes(damaged)
        forget()
        assert added(library("key", build)) == 42
        assert file.read_bytes() == whole
    assert build.calls == 4


@pytest.mark.parametrize(
    ("home", "name", "value"),
    [
        (_version, "__version__", "99"),
        (compiled.llvmlite, "__version__", "99"),
        (compiled.binding, "llvm_version_info", (99, 0, 0)),
        (jit, "_host", lambda: ("x86_64-unknown-linux-gnu", "znver9", "+avx9")),
        (compiled, "_sources", lambda: [("emit.py", 1, 2)]),
    ],
)
def test_code_of_another_maker_is_not_taken(
    home: object, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        return CodeCache(jit._host, str.encode, jit.Library).digest("key")

    own = digest()
    assert own == digest() == jit._libraries.digest("key")
    monkeypatch.setattr(home, name, value)
    assert digest() != own


def test_threads_that_ask_for_one_key_build_it_once() -> None:
    build, found = Builder(), []
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        found.append(library("key", build))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.calls == 1 and len({*map(id, found)}) == 1


def test_building_may_ask_for_other_code() -> None:
    def build() -> IrSource:
        return IrSource(returning(added(library("inner", Builder()))))

    assert function(library("outer", build), "number", I64)() == 42


def test_what_was_not_asked_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST", 2)
    monkeypatch.setenv("PTOKIT_CACHE", "off")
    build = Builder()
    a = library("a", build)
    library("b", build)
    assert library("a", build) is a
    library("c", build)
    assert build.calls == 3
    assert library("a", build) is a
    library("b", build)
    assert build.calls == 4


def test_code_lives_as_long_as_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST", 1)
    held = library("held", lambda: IrSource(returning(7)))
    address = held.address("number")
    for number in range(50):
        made = library(f"other {number}", lambda number=number: IrSource(returning(number)))
        assert function(made, "number", I64)() == number
    gc.collect()
    assert held.address("number") == address
    assert function(held, "number", I64)() == 7


# --- bad text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("define void @f( {", "<string>:1:18: error: expected type"),
        ("nonsense", "expected top-level entity"),
        ("define i32 @f() {\n  ret void\n}\n", "value doesn't match function result type 'i32'"),
        ("define void @f() {\n  br label %nowhere\n}\n", "use of undefined value '%nowhere'"),
        ("define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n", "not dominate all uses"),
        ("define void @f() {\n  ret void\n}\n" * 2, "invalid redefinition of function 'f'"),
        ("define void @f() {\n  ret void\n}\n\0", "a zero byte"),
        ("@x = global i32 " + "x" * 9999, "fault of ptokit"),
    ],
)  # fmt: skip
def test_bad_text_is_an_error(text: str, said: str) -> None:
    build = Builder(text)
    for _ in range(2):
        with pytest.raises(JitError) as refusal:
            library("key", build)
        assert said in str(refusal.value) and len(str(refusal.value)) < 4000
    assert build.calls == 2 and store.size().entries == 0
    assert added(library("key", Builder())) == 42


def test_a_name_that_is_not_there() -> None:
    made = library("key", Builder())
    with pytest.raises(JitError, match="no usable nothing"):
        made.address("nothing")
    assert added(made) == 42


def test_a_missing_function() -> None:
    text = "declare void @nobody_has_this()\ndefine void @f() {\n  call void @nobody_has_this()\n  ret void\n}\n"
    with pytest.raises(JitError, match="no usable f"):
        library("key", Builder(text)).address("f")


def test_errors_of_the_builder_are_its_own() -> None:
    def build() -> IrSource:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        library("key", build)
    with pytest.raises(TypeError):
        library("key", Builder(facts={1, 2}))
    assert added(library("key", Builder())) == 42


# --- processes -------------------------------------------------------------------------------------------------

FORKING = """
import ctypes, os, signal, threading
from ptokit.engine.native import jit

def number(n):
    text = "define i64 @f() {\\n  ret i64 %d\\n}\\n" % n
    return ctypes.CFUNCTYPE(ctypes.c_int64)(jit.library(text, lambda: jit.IrSource(text)).address("f"))()

done = threading.Event()

def compile_on():
    n = 1000
    while not done.is_set():
        n += 1
        assert number(n) == n

threading.Thread(target=compile_on).start()
statuses = []
for n in range(12):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # nothing takes so long, but for waiting for ever
        os._exit(0 if number(n) == n else 1)
    statuses.append(os.waitpid(child, 0)[1])
done.set()
print(statuses == [0] * 12)
"""


def test_a_child_can_compile_whatever_its_parent_was_at() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    settings = {**os.environ, "PYTHONPATH": HOME, "PTOKIT_CACHE": "off"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_processes_share_what_one_of_them_built(tmp_path: Path) -> None:
    code = f"from ptokit.engine.native import jit\ntext = {ADD!r}\nmade = []\n"
    code += "jit.library('key', lambda: made.append(1) or jit.IrSource(text)).address('add')\nprint(len(made))\n"
    settings = {**os.environ, "PYTHONPATH": HOME}
    command = [sys.executable, "-c", code]
    built = [subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout for _ in "ab"]
    assert built == ["1\n", "0\n"]
