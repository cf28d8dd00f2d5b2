"""Programs as recordings: every block is run on paper, and each instruction becomes a recorded call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ptokit.cxx.recording import (
    LaunchArgument,
    RecordedArray,
    RecordedBlock,
    RecordedCall,
    RecordedFrame,
    RecordedLaunch,
    RecordedOperand,
    RecordedPointer,
    RecordedScalar,
    RecordedText,
    RecordedTile,
    Recording,
)
from ptokit.isa.dtype import DType
from ptokit.isa.headers import as_row, becomes_row
from ptokit.isa.operand import TileSpec
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Var, evaluate, substitute
from ptokit.program.instr_calls import named_operands, tile_spec
from ptokit.program.memory import Path, statements
from ptokit.target import Profile
from ptokit.text.cpp.types import GlobalBlock, call_text, header_call, transfer, whole_view

FILE = "unrolled.cpp"


class Unroller:
    """Runs the blocks of a program whose tiles have addresses."""

    def __init__(
        self,
        program: ir.Program,
        profile: Profile,
        arrays: Mapping[str, Any],
        numbers: Mapping[str, int] | None = None,
        workspace: int = 0,
    ) -> None:
        """`workspace` is the address of workspaces that C++ adds."""
        self.program, self.profile, self.arrays, self.workspace = program, profile, arrays, workspace
        self.values: dict[Var, int] = {Var(name): value for name, value in (numbers or {}).items()}
        self.addresses: dict[str, int] = {}
        self.iteration = [0]
        self.calls: list[RecordedCall] = []
        self.known: dict[RecordedCall, int] = {}
        self.sites = {path: number for number, (path, _) in enumerate(statements(program.body))}
        self.made: list[int] = []
        self.names = [argument.name for argument in program.tensors.values() if not argument.view_of]

    def recording(self, grid: int) -> Recording:
        self.values[BLOCK_NUM] = grid
        blocks: list[RecordedBlock] = []
        for index in range(grid):
            self.values[BLOCK_IDX], self.made = index, []
            self.block(self.program.body, ())
            blocks.append(RecordedBlock(index, "vector", 0, np.array(self.made, np.uint32)))
        launch = RecordedLaunch(self.program.name, grid, tuple(map(self.argument, self.names)), tuple(blocks))
        sites = [(RecordedFrame(FILE, number + 1, 1, self.program.name),) for number in range(len(self.sites))]
        return Recording(self.profile.name, sites, self.calls, (launch,))

    def argument(self, name: str) -> LaunchArgument:
        argument = self.program.tensors[name]
        given = self.arrays.get(name)
        shape = tuple(given.shape) if given is not None else tuple(map(self.value, argument.shape))
        return LaunchArgument(name, argument.dtype.name, shape)

    def value(self, expr: Any) -> int:
        return evaluate(expr, self.values)

    def block(self, block: ir.Block, at: Path) -> None:
        for number, stmt in enumerate(block):
            self.statement(stmt, (*at, number))

    def statement(self, stmt: ir.Stmt, path: Path) -> None:
        match stmt:
            case ir.Loop():
                for count, value in enumerate(range(self.value(stmt.start), self.value(stmt.stop), stmt.step)):
                    self.values[stmt.var] = value
                    self.iteration.append(count)
                    self.block(stmt.body, (*path, 0))
                    self.iteration.pop()
            case ir.Branch():
                arm = 0 if self.value(stmt.condition) else 1
                self.block((stmt.then, stmt.otherwise)[arm], (*path, arm))
            case ir.TileDecl():
                if stmt.addresses:
                    copy = self.iteration[-1] % len(stmt.addresses)
                    self.addresses[stmt.name] = self.value(stmt.addresses[copy])
            case ir.Assign():
                self.addresses[stmt.tile] = self.value(stmt.address)
            case ir.LoadScalar():
                argument = self.program.tensors[stmt.source.argument]
                offset = self.value(argument.offset) + sum(
                    self.value(a) * self.value(b) for a, b in zip(stmt.source.starts, argument.stride, strict=True)
                )
                self.values[stmt.result] = int(self.arrays[argument.array].reshape(-1)[offset])
                self.load(self.names.index(argument.array), offset, argument.dtype, path)
            case ir.Flag():
                ends = RecordedText(f"PIPE_{stmt.src}"), RecordedText(f"PIPE_{stmt.dst}")
                self.call(f"{stmt.action}_flag", path, *ends, RecordedText(f"EVENT_ID{self.value(stmt.event)}"))
            case ir.Barrier():
                self.call("pipe_barrier", path, RecordedText(f"PIPE_{stmt.pipe}"))
            case ir.CrossFlag():
                raise NotImplementedError
            case ir.Instr():
                self.instruction(stmt, path)

    def call(
        self, name: str, path: Path, *operands: RecordedOperand, modifiers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        call = RecordedCall(name, operands, modifiers, self.sites[path])
        if call not in self.known:
            self.known[call] = len(self.calls)
            self.calls.append(call)
        self.made.append(self.known[call])

    def load(self, array: int, offset: int, kind: DType, path: Path) -> None:
        """A load of C++ code through a pointer, as it is recorded where nobody asks for its value."""
        self.call("load", path, RecordedPointer(array, offset * kind.size), RecordedScalar("uint64", kind.size))

    def instruction(self, instr: ir.Instr, path: Path) -> None:
        call = header_call(self.program, instr, self.profile)
        given = {name: self.operand(instr, name, call) for name in named_operands(instr)}
        if instr.workspace is not None:
            given["tmp"] = self.tile(instr.workspace)
        elif (scratch := call.workspace) is not None:
            assert call.instruction.workspace is not None
            like = named_operands(instr).get(call.instruction.workspace.like)
            valid = like.valid if isinstance(like, ir.TileUse) else scratch.valid
            rows, cols = map(self.value, valid)
            given["tmp"] = recorded_tile(replace(scratch, addr=self.workspace, valid_rows=rows, valid_cols=cols))
        text = call_text(call, {name: f"@{name}" for name in given})
        words = [word.strip() for word in re.sub(r"^\w+(<.*>)?\(", "", text).removesuffix(")").split(",")]
        operands = [given[word[1:]] if word[0] == "@" else RecordedText(word) for word in words]
        stated = (m for m in call.instruction.modifiers if m.name != "conflict" or "ScatterConflict" in text)
        modifiers = tuple((m.name, call.values[m.name].text) for m in stated if call.values[m.name] is not None)
        self.call(instr.name, path, *operands, modifiers=modifiers)

    def operand(self, instr: ir.Instr, name: str, call: Any) -> RecordedOperand:
        operand = named_operands(instr)[name]
        match operand:
            case ir.TileUse():
                return self.tile(operand, is_row=becomes_row(call, name))
            case ir.View():
                if call.instruction.cpp.is_transfer:
                    return self.array(transfer(self.program, instr, call)[0])
                return self.array(whole_view(self.program, operand))
            case ir.Constant():
                value = np.array([operand.bits], f"u{operand.dtype.size}").view(operand.dtype.numpy)[0]
                plain = int(value) if operand.dtype.is_integer else float(value)
                return RecordedScalar(operand.dtype.name, plain)
            case ir.Number():
                return RecordedScalar(operand.dtype.name, self.value(operand.value))
            case ir.Given():
                raise NotImplementedError

    def tile(self, use: ir.TileUse, *, is_row: bool = False) -> RecordedTile:
        own = self.program.tiles[use.tile].spec
        spec = tile_spec(own, use, self.value, self.addresses.get(use.tile)).unsliced
        if is_row:
            spec = replace(as_row(spec), addr=spec.addr)
        return recorded_tile(spec)

    def array(self, block: GlobalBlock) -> RecordedArray:
        argument = block.argument
        shape, stride = (tuple(map(self.value, exprs)) for exprs in (block.shape, block.stride))
        offset = self.value(block.offset) * argument.dtype.size
        given = (*block.shape, *block.stride)
        dynamic = tuple(m or not isinstance(e, int) for e, m in zip(given, argument.dynamic, strict=True))
        number, layout = self.names.index(argument.array), block.layout.name
        return RecordedArray(number, offset, argument.dtype.name, shape, stride, layout, dynamic)


def recorded_tile(spec: TileSpec) -> RecordedTile:
    return RecordedTile(
        0, spec.addr, spec.loc.text, spec.dtype.name, spec.rows, spec.cols, *spec.valid, spec.blayout.text,
        spec.slayout.text, spec.fractal, spec.pad.text, dynamic=spec.dynamic,
    )  # fmt: skip


def plain_calls(recording: Recording) -> Iterator[list[object]]:
    """What each block did, without places and without the strides of dims with one element."""

    def plain(operand: RecordedOperand) -> RecordedOperand:
        if isinstance(operand, RecordedArray):
            stride = tuple(s if n > 1 else 0 for n, s in zip(operand.shape, operand.stride, strict=True))
            return replace(operand, stride=stride, dynamic=())
        return operand

    for launch in recording.launches:
        for block in launch.blocks:
            calls = (recording.calls[number] for number in block.calls)
            yield [(call.name, tuple(map(plain, _kept(call))), call.modifiers) for call in calls]


def _kept(call: RecordedCall) -> Iterator[RecordedOperand]:
    """The operands that a program keeps: all but bare pointers."""
    return (operand for operand in call.operands if not isinstance(operand, RecordedPointer))


def canonical(program: ir.Program) -> ir.Program:
    """The program with plain names, and without marks of run-time extents."""
    tiles = {name: f"t{number}" for number, name in enumerate(program.tiles)}
    names = {var: Var(f"v{number}") for number, var in enumerate(ir.definitions(program.body))}

    def use(operand: Any) -> Any:
        return replace(operand, tile=tiles[operand.tile]) if isinstance(operand, ir.TileUse) else operand

    def rename(stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.TileDecl():
                return replace(stmt, name=tiles[stmt.name], spec=replace(stmt.spec, dynamic=(False, False)))
            case ir.Instr():
                return replace(stmt, operands=tuple(map(use, stmt.operands)), workspace=use(stmt.workspace))
            case ir.Loop():
                return replace(stmt, var=names[stmt.var])
            case _:
                return stmt

    body = ir.transform(ir.settled(program.body), rename)
    body = tuple(ir.with_expressions(stmt, lambda expr: substitute(expr, names)) for stmt in body)
    arguments = tuple(
        replace(each, dynamic=(False,) * 10) if isinstance(each, ir.Argument) else each for each in program.arguments
    )
    return replace(program, name="k", body=body, arguments=arguments)
