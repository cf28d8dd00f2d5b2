"""Writes LLVM IR as text: typed values with operators, loops and branches. Knows nothing of tiles or moves.

What code depends on of the processor that runs it is a `Chip`; all else about moves and computations is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Chip:
    """How the work of a block is shared, and how wide one lane moves data.

    A block is executed by `lanes` threads together. Code outside a phase is executed by all of them with the same
    numbers; in a phase each takes its part, and at its end all have written. Without `lane`, the lanes of a phase are
    iterations of a loop: one thread executes the code of many.
    """

    lanes: int = 1
    program_lanes: int = 0
    """Those of a block that executes a program, if they are more."""
    lane: str = ""
    """The intrinsic that reads the number of a thread in its block."""
    barrier: str = ""
    """The intrinsic that waits for all threads of a block."""
    any: str = ""
    """The intrinsic that waits too, and says whether any of them has a bit set."""
    piece: int = 64
    """Bytes that a lane moves at a time, at most."""
    depth: int = 4
    """Pieces that a lane loads before it stores the first of them."""
    units: tuple[tuple[str, tuple[str, str]], ...] = ()
    """The intrinsics of matrix units by the type that is multiplied, and the type of their operands."""
    wide_units: tuple[str, ...] = ()
    """Types that 128 lanes multiply together, of tiles in shared memory, while they go on with other work."""
    has_ptx: bool = False
    """Whether it takes instructions of PTX as they are; others call functions in their place."""
    unrolled: bool = True
    """Whether loops may be unrolled: on a GPU that takes longer to assemble than it saves."""
    outlined: str = "noinline nounwind"
    """The attributes of functions that code is divided into."""
    kernel: str = "void"
    """The result and the calling convention of a kernel: a function that every block of a grid executes."""
    block: str = ""
    """The intrinsic that reads the number of a block in its grid; without it, kernels take that as an argument."""
    blocks: str = ""
    """The same for the number of blocks."""
    by_value: str = ""
    """The attribute of a pointer of a kernel whose memory is copied when it is launched."""
    reductions: tuple[tuple[tuple[str, int], str], ...] = ()
    """Additions to global memory by many lanes at once: for so many elements of a type, the instruction over an address
    and words of 32 bits. Others are made of atomic instructions of LLVM."""


CPU = Chip()


I1, I8, I32, I64, PTR = "i1", "i8", "i32", "i64", "ptr"
METADATA = """!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{i32 1}
!2 = !{}
!3 = distinct !{!3, !4}
!4 = !{!"llvm.loop.unroll.disable"}
"""
"""`!prof !0` after a branch: the first target is nearly always taken. `!nontemporal !1` after a store: it
bypasses the caches. `!invariant.load !2` after a load: nobody writes there as long as the code runs. `!llvm.loop !3`
after the last branch of a loop: it is not unrolled."""
STREAMING, INVARIANT = ", !nontemporal !1", ", !invariant.load !2"
OUTLINED = "outlined"
"""How the names of functions begin that code is divided into."""
CHIPS = "llvm.nvvm."
"""How the names of intrinsics of chips begin: LLVM knows those that it has now, not those of earlier versions."""
FLOATS = {"half": 2, "float": 4, "double": 8}


def vector(element: str, count: int) -> str:
    """The type of `count` elements side by side; of one, the element's own type."""
    return f"<{count} x {element}>" if count > 1 else element


def lanes_of(kind: str) -> int:
    """How many elements a type has."""
    return int(kind[1 : kind.index(" ")]) if kind[0] == "<" else 1


def element_of(kind: str) -> str:
    """The type of one element."""
    return kind[kind.index("x") + 2 : -1] if kind[0] == "<" else kind


def size_of(kind: str) -> int:
    """Bytes of a type in memory."""
    element = element_of(kind)
    each = 8 if element == PTR else FLOATS[element] if element in FLOATS else max(1, int(element[1:]) // 8)
    return each * lanes_of(kind)


def like(kind: str, element: str) -> str:
    """As many of another element."""
    return vector(element, lanes_of(kind))


def _operator(name: str, of_floats: str = "", *, swapped: bool = False) -> Callable[[IrValue, Operand], IrValue]:
    """An operator of values: its instruction, and the instruction for floating-point numbers if that differs."""

    def apply(left: IrValue, other: Operand) -> IrValue:
        right = left.code.same(left, other)
        chosen = of_floats if of_floats and left.is_float else name
        return left.code.binary(chosen, right, left) if swapped else left.code.binary(chosen, left, right)

    return apply


class IrValue:
    """A typed value; operators on it write instructions. Whole numbers join in as constants of its type."""

    __slots__ = ("code", "name", "number", "type")

    def __init__(self, code: IrBuilder, kind: str, name: str, number: int | None = None) -> None:
        """`number` is the value of a scalar whole-number constant."""
        self.code, self.type, self.name, self.number = code, kind, name, number

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def is_float(self) -> bool:
        """Whether it holds floating-point numbers."""
        return self.type[0] != "i" and element_of(self.type) in FLOATS

    __add__ = __radd__ = _operator("add", "fadd")
    __sub__, __rsub__ = _operator("sub", "fsub"), _operator("sub", "fsub", swapped=True)
    __mul__ = __rmul__ = _operator("mul", "fmul")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("lshr")  # logical shifts: no sign is kept

    def op(self, name: str, other: Operand) -> IrValue:
        """Any other instruction of two operands: `sdiv`, `ashr`, `frem`, …"""
        return self.code.binary(name, self, self.code.same(self, other))

    def compare(self, how: str, other: Operand) -> IrValue:
        """`eq`, `ne`, `slt`, `ult`, … for whole numbers and pointers; `olt`, `uno`, … for floats."""
        return self.code.compare(how, self, self.code.same(self, other))

    def bits(self, kind: str) -> IrValue:
        """The same bits as another type of the same size."""
        return self.code.convert("bitcast", self, kind) if kind != self.type else self

    def to(self, name: str, kind: str) -> IrValue:
        """A conversion: `zext`, `sext`, `trunc`, `fpext`, `sitofp`, …; nothing where the type is the same."""
        return self.code.convert(name, self, kind) if kind != self.type else self


Operand = IrValue | int

FOLDS: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
"""Computed at once where both operands are constants."""
NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "or": 0, "xor": 0, "shl": 0, "lshr": 0, "ashr": 0, "udiv": 1, "sdiv": 1}
"""A second operand that changes nothing."""


class IrBuilder:
    """Builds the body of one function, from top to bottom."""

    def __init__(
        self, module: IrModule, name: str, result: str, parameters: Sequence[tuple[str, str]], attributes: str = ""
    ) -> None:
        """`parameters` are types (with attributes, if any) and names."""
        self.module, self.chip = module, module.chip
        self.name, self.result, self.attributes = name, result, attributes
        self.parameters = parameters
        self.arguments = [IrValue(self, kind.split()[0], f"%{name}") for kind, name in parameters]
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._count = 0
        self.label = "entry"
        """The block that is being written."""
        self.is_open = True
        """Whether the block still needs an end."""
        self._lane: IrValue | None = None

    # --- lines and blocks

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        """One line, unchanged."""
        self._lines.append(text)

    def new_label(self, hint: str) -> str:
        """A name for a block to come."""
        self._count += 1
        return f"{hint}{self._count}"

    def begin(self, label: str) -> None:
        """Start a block; the previous block falls through to it."""
        if self.is_open:
            self.line(f"  br label %{label}")
        self.line(f"{label}:")
        self.label, self.is_open = label, True

    def jump(self, label: str) -> None:
        """End the block: jump to another."""
        if self.is_open:
            self.line(f"  br label %{label}")
        self.is_open = False

    def split(self, condition: IrValue, then: str, otherwise: str, weights: str = "") -> None:
        """End the block: jump to one of two others."""
        self.line(f"  br i1 {condition.name}, label %{then}, label %{otherwise}{weights}")
        self.is_open = False

    def ret(self, value: IrValue | None = None) -> None:
        self.line(f"  ret {value!r}" if value is not None else "  ret void")
        self.is_open = False

    @property
    def text(self) -> str:
        """The whole function."""
        listed = ", ".join(f"{kind} %{name}" for kind, name in self.parameters)
        body = "\n".join([*self._slots, *self._lines])
        return f"define {self.result} @{self.name}({listed}) {self.attributes} {{\nentry:\n{body}\n}}\n"

    # --- values

    def constant(self, kind: str, number: int | str) -> IrValue:
        """A constant, the same in every lane."""
        if kind[0] != "<":
            return IrValue(self, kind, str(number), number if isinstance(number, int) and kind[0] == "i" else None)
        count, element = lanes_of(kind), element_of(kind)
        return IrValue(self, kind, f"<{', '.join([f'{element} {number}'] * count)}>")

    def i64(self, number: Operand) -> IrValue:
        """A 64-bit whole number; a value is returned unchanged."""
        return number if isinstance(number, IrValue) else IrValue(self, I64, str(number), number)

    def same(self, value: IrValue, other: Operand) -> IrValue:
        """Another operand in the type of `value`."""
        return other if isinstance(other, IrValue) else self.constant(value.type, other)

    def write(self, kind: str, text: str) -> IrValue:
        """An instruction that has a value."""
        name = self._name()
        self._lines.append(f"  {name} = {text}")
        return IrValue(self, kind, name)

    def binary(self, name: str, a: IrValue, b: IrValue) -> IrValue:
        """An instruction of two operands of one type; computed at once where they are known."""
        x, y = a.number, b.number
        if y is not None and y == NEUTRAL.get(name):
            return a
        if x is not None and x == 0 and name == "add":
            return b
        if x is not None and y is not None and name in FOLDS:
            return self.constant(a.type, FOLDS[name](x, y))
        return self.write(a.type, f"{name} {a!r}, {b.name}")

    def compare(self, how: str, a: IrValue, b: IrValue) -> IrValue:
        """A comparison, lane by lane."""
        word = "fcmp" if a.is_float else "icmp"
        return self.write(like(a.type, I1), f"{word} {how} {a!r}, {b.name}")

    def convert(self, name: str, value: IrValue, kind: str) -> IrValue:
        """A conversion to another type."""
        return self.write(kind, f"{name} {value!r} to {kind}")

    def select(self, condition: IrValue, a: IrValue, b: Operand) -> IrValue:
        """One value or the other, lane by lane."""
        return self.write(a.type, f"select {condition!r}, {a!r}, {self.same(a, b)!r}")

    def call(self, kind: str, name: str, *values: IrValue | str) -> IrValue:
        """Call a function, which is declared unless it is written here; immediate operands are given as text."""
        listed = ", ".join(value if isinstance(value, str) else repr(value) for value in values)
        if not name.startswith(("llvm.", OUTLINED)) or name.startswith(CHIPS):
            types = (value.partition(" ")[0] if isinstance(value, str) else value.type for value in values)
            self.module.outside(name, f"declare {kind} @{name}({', '.join(types)})")
        if kind == "void":
            self.line(f"  call void @{name}({listed})")
            return IrValue(self, kind, "")
        return self.write(kind, f"call {kind} @{name}({listed})")

    def ptx(self, kind: str, name: str, text: str, constraints: str, *values: IrValue) -> IrValue:
        """An instruction of PTX; on a chip without them, a call of the function `name`."""
        if not self.chip.has_ptx:
            return self.call(kind, name, *values)
        asm = f'asm sideeffect "{text}", "{constraints}"({", ".join(map(repr, values))})'
        if kind != "void":
            return self.write(kind, f"call {kind} {asm}")
        self.line(f"  call void {asm}")
        return IrValue(self, kind, "")

    def in_space(self, pointer: IrValue, space: int) -> IrValue:
        """A pointer as instructions of PTX take it, to global memory (1) or shared memory (3)."""
        kind = f"ptr addrspace({space})"
        return self.convert("addrspacecast", pointer, kind) if self.chip.has_ptx else pointer

    def reduce(self, name: str, value: IrValue) -> IrValue:
        """All lanes of a vector of integers combined: `or`, `umax`, …"""
        element = element_of(value.type)
        return self.call(element, f"llvm.vector.reduce.{name}.v{lanes_of(value.type)}{element}", value)

    def splat(self, value: IrValue, count: int) -> IrValue:
        """The same scalar in every lane."""
        if count == 1:
            return value
        kind = vector(value.type, count)
        first = self.write(kind, f"insertelement {kind} poison, {value!r}, i64 0")
        return self.write(kind, f"shufflevector {first!r}, {kind} poison, <{count} x i32> zeroinitializer")

    # --- memory

    def at(self, pointer: IrValue, nbytes: Operand) -> IrValue:
        """The address `nbytes` bytes further."""
        step = self.i64(nbytes)
        return pointer if step.number == 0 else self.write(PTR, f"getelementptr i8, {pointer!r}, {step!r}")

    def load(self, kind: str, pointer: IrValue, align: int = 0, flags: str = "") -> IrValue:
        """Read memory, aligned to one element by default."""
        return self.write(kind, f"load {kind}, {pointer!r}, align {align or size_of(element_of(kind))}{flags}")

    def store(self, value: IrValue, pointer: IrValue, align: int = 0, flags: str = "") -> None:
        """Write memory, aligned to one element by default."""
        self.line(f"  store {value!r}, {pointer!r}, align {align or size_of(element_of(value.type))}{flags}")

    def settle(self) -> None:
        """Keep loads that stand before this point before it."""
        self.line('  call void asm sideeffect "", "~{memory}"()')

    def fill_bytes(self, pointer: IrValue, byte: IrValue | int, nbytes: IrValue) -> None:
        """Write one byte again and again."""
        value = byte if isinstance(byte, IrValue) else self.constant(I8, byte)
        self.call("void", "llvm.memset.p0.i64", pointer, value, nbytes, "i1 false")

    def prefetch(self, pointer: IrValue, *, to_write: bool = False, locality: int = 2) -> None:
        """Fetch a line that will be needed soon."""
        self.call("void", "llvm.prefetch.p0", pointer, f"i32 {int(to_write)}", f"i32 {locality}", "i32 1")

    def memory(self, nbytes: int) -> IrValue:
        """Memory of the function's own, as long as it runs."""
        name = self._name()
        self._slots.append(f"  {name} = alloca [{nbytes} x i8], align 16")
        return IrValue(self, PTR, name)

    def variable(self, kind: str, start: IrValue) -> Variable:
        """A variable of the function's own; registers in the end."""
        name = self._name()
        self._slots.append(f"  {name} = alloca {kind}")
        made = Variable(IrValue(self, PTR, name), kind)
        made.set(start)
        return made

    def preset(self, kind: str, pointer: IrValue, nbytes: int) -> Variable:
        """A variable that holds, when the function begins, what lies `nbytes` after an argument."""
        name, at, start = self._name(), self._name(), self._name()
        self._slots += [
            f"  {name} = alloca {kind}",
            f"  {at} = getelementptr i8, {pointer!r}, i64 {nbytes}",
            f"  {start} = load {kind}, ptr {at}, align {size_of(kind)}",
            f"  store {kind} {start}, ptr {name}",
        ]
        return Variable(IrValue(self, PTR, name), kind)

    # --- control

    @contextmanager
    def loop(self, start: Operand, stop: Operand, step: Operand = 1) -> Generator[IrValue]:
        """`for i in range(start, stop, step)` over 64-bit numbers; yields `i`."""
        first, last = self.i64(start), self.i64(stop)
        head, body, latch, done = (self.new_label(hint) for hint in ("head", "body", "latch", "done"))
        before = self.label
        self.jump(head)
        self.begin(head)
        i = self._name()
        self.line(f"  {i} = phi i64 [ {first.name}, %{before} ], [ {i}.next, %{latch} ]")
        index = IrValue(self, I64, i)
        self.split(index.compare("slt", last), body, done)
        self.begin(body)
        yield index
        self.begin(latch)
        self.line(f"  {i}.next = add i64 {i}, {self.i64(step).name}")
        self.line(f"  br label %{head}{'' if self.chip.unrolled else ', !llvm.loop !3'}")
        self.is_open = False
        self.begin(done)

    @contextmanager
    def loop_from_zero(self, count: IrValue) -> Generator[IrValue]:
        """A loop from zero, or no loop for a count of one."""
        if count.number == 1:
            yield self.i64(0)
        else:
            with self.loop(0, count) as i:
                yield i

    def strips(self, count: IrValue, width: int) -> Iterator[tuple[IrValue, int]]:
        """Two loops over `count` elements: `width` (a power of two) at a time, then the rest one by one.

        Yields once for each loop: the first element, and how many are taken at a time.
        """
        whole = count - (count & (width - 1)) if width > 1 else self.i64(0)
        for start, stop, step in ((self.i64(0), whole, width), (whole, count, 1))[width == 1 :]:
            with self.loop(start, stop, step) as k:
                yield k, step

    def leave_if(self, condition: IrValue, label: str) -> None:
        """Jump to a label if a condition holds."""
        go_on = self.new_label("go")
        self.split(condition, label, go_on)
        self.begin(go_on)

    def leave_unless(self, condition: IrValue, label: str) -> None:
        """Jump to a label unless a condition holds."""
        go_on = self.new_label("go")
        self.split(condition, go_on, label)
        self.begin(go_on)

    @contextmanager
    def repeat(self, condition: Callable[[], IrValue]) -> Generator[None]:
        """As long as a condition holds."""
        head, body, done = (self.new_label(hint) for hint in ("while", "do", "end"))
        self.begin(head)
        self.split(condition(), body, done)
        self.begin(body)
        yield
        self.jump(head)
        self.begin(done)

    @contextmanager
    def until(self) -> Generator[str]:
        """Code that may be left early: yields the label to jump to."""
        done = self.new_label("left")
        yield done
        self.begin(done)

    @contextmanager
    def when(self, condition: IrValue) -> Generator[None]:
        """Only where a condition holds."""
        then, done = self.new_label("then"), self.new_label("done")
        self.split(condition, then, done)
        self.begin(then)
        yield
        self.begin(done)

    def choose(self, condition: IrValue, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """One piece of code or the other."""
        first, second, done = (self.new_label(hint) for hint in ("then", "else", "done"))
        self.split(condition, first, second)
        for label, write in ((first, then), (second, otherwise)):
            self.begin(label)
            write()
            self.jump(done)
        self.begin(done)

    # --- lanes

    @property
    def lane(self) -> IrValue:
        """The number of the lane, in a phase."""
        assert self._lane is not None, "lanes are known in a phase only"
        return self._lane

    @contextmanager
    def phase(self, *, waits: bool = True) -> Generator[None]:
        """Code that the lanes share. If it waits, the code after it sees everything that they wrote."""
        assert self._lane is None, "a phase inside a phase"
        chip = self.chip
        if chip.lanes == 1:
            self._lane = self.i64(0)
            yield
        elif chip.lane:
            self._lane = self._own_lane()
            yield
            if waits:
                self.call("void", chip.barrier)
        else:
            with self.loop(0, chip.lanes) as self._lane:
                yield
        self._lane = None

    def _own_lane(self) -> IrValue:
        return self.call(I32, self.chip.lane).to("zext", I64)

    def share(self, start: Operand, stop: Operand, step: int = 1) -> AbstractContextManager[IrValue]:
        """The iterations of a loop that fall to a lane, in a phase."""
        if self.chip.lanes == 1:
            return self.loop(start, stop, step)
        return self.loop(self.lane * step + start, stop, self.chip.lanes * step)

    @contextmanager
    def region(self, rows: IrValue, cols: IrValue, wide: int = 1) -> Generator[tuple[IrValue, Across]]:
        """Rows and columns that fall to a lane, in a phase: row `i`, and a loop over its columns.

        Several lanes share the elements: each gets `wide` columns of a row at a time, of which `cols` is a multiple.
        """
        if self.chip.lanes == 1:
            with self.loop_from_zero(rows) as i:
                yield i, self.loop
            return
        across = self.i64(cols.number // wide) if cols.number is not None else cols
        with self.share(0, rows * across) as k:

            @contextmanager
            def one_column(start: Operand, _stop: Operand, step: Operand = 1) -> Generator[IrValue]:
                assert (self.i64(start).number, step) == (0, wide)
                yield k.op("urem", across) * wide

            yield k.op("udiv", across), one_column

    def any(self, find: Callable[[Variable], None]) -> IrValue:
        """Whether any lane finds something: `find` is a phase that sets a bit."""
        found = self.variable(I1, self.constant(I1, 0))
        if not self.chip.lane:
            with self.phase():
                find(found)
            return found.get()
        self._lane = self._own_lane()
        find(found)
        self._lane = None
        return self.call(I1, self.chip.any, "i32 0", found.get())

    def poison(self, pointer: IrValue, nbytes: IrValue) -> None:
        """Fill memory with ones, in a phase of its own."""
        with self.phase():
            if self.chip.lanes == 1:
                self.fill_bytes(pointer, 255, nbytes)
                return
            with self.share(0, nbytes) as k:
                self.store(self.constant(I8, 255), self.at(pointer, k))

    def same_lane(self, number: Operand) -> IrValue:
        """Whether it is the lane of this number."""
        return self.lane.compare("eq", number)

    # --- blocks of a grid, in a kernel

    def set_lanes(self, lanes: int) -> None:
        """Set the number of lanes of a kernel that has no phase yet."""
        self.chip = self.module.chip = replace(self.chip, lanes=lanes)
        self.attributes = f'"nvvm.maxntid"="{lanes}"'

    @property
    def block(self) -> IrValue:
        """The number of the block that executes this code."""
        return self._of_grid(self.chip.block, -3)

    @property
    def blocks(self) -> IrValue:
        """The number of blocks of the grid."""
        return self._of_grid(self.chip.blocks, -2)

    def _of_grid(self, intrinsic: str, argument: int) -> IrValue:
        if not intrinsic:
            return self.arguments[argument]
        return self.call(I32, intrinsic).to("zext", I64)

    @property
    def shared(self) -> IrValue:
        """Memory that the lanes of a block share; a launch says how much there is."""
        if not self.chip.block:
            return self.arguments[-1]
        self.module.outside("shared", "@shared = external addrspace(3) global [0 x i8], align 1024")
        return self.write(PTR, "addrspacecast ptr addrspace(3) @shared to ptr")

    def spread(self, stop: Operand) -> AbstractContextManager[IrValue]:
        """The iterations of a loop that fall to a block."""
        return self.loop(self.block, stop, self.blocks)


class Variable:
    """Memory of a function's own that holds one value."""

    __slots__ = ("kind", "pointer")

    def __init__(self, pointer: IrValue, kind: str) -> None:
        self.pointer, self.kind = pointer, kind

    def get(self) -> IrValue:
        """The value now."""
        return self.pointer.code.load(self.kind, self.pointer)

    def set(self, value: IrValue) -> None:
        self.pointer.code.store(value, self.pointer)


Across = Callable[..., AbstractContextManager[IrValue]]
"""A loop over columns, as `IrBuilder.loop`."""


class IrModule:
    """Functions, the globals they use and the declarations they need."""

    def __init__(self, chip: Chip = CPU) -> None:
        self.chip = chip
        self.functions: list[IrBuilder] = []
        self._outlined: dict[str, str] = {}
        self._parts: dict[str, str] = {}

    def function(
        self, name: str, result: str, parameters: Sequence[tuple[str, str]], attributes: str = ""
    ) -> IrBuilder:
        code = IrBuilder(self, name, result, parameters, attributes)
        self.functions.append(code)
        return code

    def kernel(self, name: str, parameters: Sequence[tuple[str, str]]) -> IrBuilder:
        """A function that every block of a grid executes, over `i64` and `ptr` parameters."""
        hidden = () if self.chip.block else ((I64, "block"), (I64, "blocks"), (PTR, "shared"))
        made = self.function(name, self.chip.kernel, (*parameters, *hidden))
        made.set_lanes(self.chip.lanes)
        return made

    def outlined(self, kind: str, given: Sequence[IrValue], write: Callable[[IrBuilder, list[IrValue]], None]) -> str:
        """A function of its own that takes values of these types; one that was written before is not written again."""
        parameters = [(value.type, f"p{place}") for place, value in enumerate(given)]
        name, result = f"{OUTLINED}{len(self._outlined)}", f"internal {kind}"
        code = IrBuilder(self, name, result, parameters, self.chip.outlined)
        write(code, code.arguments)
        name = self._outlined.setdefault(code.text.partition("(")[2], code.name)
        if name == code.name:
            self.functions.append(code)
        return name

    def outside(self, name: str, text: str) -> None:
        """Declare a function or memory that is defined elsewhere."""
        self._parts.setdefault(name, text)

    def table(self, name: str, data: bytes) -> str:
        """Bytes that code reads, 64-byte aligned; returns the global's name."""
        if name not in self._parts:
            text = data.hex("\\")
            self._parts[name] = f'@{name} = private constant [{len(data)} x i8] c"\\{text}", align 64'
        return name

    @property
    def text(self) -> str:
        parts = [*self._parts.values(), "", *(code.text for code in self.functions), METADATA]
        return "\n".join(parts)
