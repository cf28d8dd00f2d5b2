"""A tree as MLIR text: legal, not yet canonical. What reads and prints modules makes it so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Pad
from ptokit.isa.unknown import is_unknown
from ptokit.program.ir import Constant
from ptokit.text.spelling import instruction_of
from ptokit.text.tree import Body, Function, Operation, Pointer, Tensor, Type, Unit, Value


def draft(unit: Unit, *, has_values: bool = False) -> str:
    """The text of a whole tree; tiles are buffers, or values as in Level 1."""
    return _Draft(value_text if has_values else buffer_text).unit(unit)


class _Draft:
    """Writes one tree."""

    def __init__(self, tile: Callable[[TileSpec], str]) -> None:
        self._tile = tile

    def type(self, kind: Type) -> str:
        """A type as MLIR writes it."""
        if isinstance(kind, Pointer):
            return f"!pto.ptr<{element_text(kind.dtype.mlir)}>"
        if isinstance(kind, Tensor):
            name = "partition_tensor_view" if kind.is_part else "tensor_view"
            dims = "".join(f"{'?' if dim is None else dim}x" for dim in kind.dims)
            return f"!pto.{name}<{dims}{element_text(kind.dtype.mlir)}>"
        if isinstance(kind, TileSpec):
            return self._tile(kind)
        return kind if isinstance(kind, str) else kind.text

    def unit(self, unit: Unit) -> str:
        """The whole text."""
        arch = f' attributes {{pto.target_arch = "{unit.arch}"}}' if unit.arch else ""
        lines = [f"module{arch} {{", *(line for function in unit.functions for line in self._function(function)), "}"]
        return "\n".join(lines) + "\n"

    def _function(self, function: Function) -> Iterator[str]:
        given = ", ".join(f"%{value.name}: {self.type(value.type)}" for value in function.arguments)
        attributes = f" attributes {_dictionary(function.attributes)}" if function.attributes else ""
        yield f"func.func @{_symbol(function.name)}({given}){attributes} {{"
        yield from self._body(function.body)
        yield "}"

    def _body(self, body: Body) -> Iterator[str]:
        for operation in body.operations:
            yield from WRITERS.get(operation.name, _Draft._general)(self, operation)

    def _types(self, values: tuple[Value, ...]) -> str:
        return ", ".join(self.type(value.type) for value in values)

    def _general(self, operation: Operation) -> Iterator[str]:
        """`pto.op ins(...) outs(...) {...}`, or values and results."""
        instruction = instruction_of(operation.name)
        texts = {text.key: text for _, text in instruction.attributes} if instruction else {}
        kinds = {key: text.kind for key, text in texts.items()}
        attributes = {key: _value(kinds.get(key, ""), value) for key, value in operation.attributes.items()}
        if not operation.outs:
            kinds = f" : ({self._types(operation.ins)}) -> {self._result_types(operation)}"
            yield f"{_results(operation)}pto.{operation.name} {_names(operation.ins)}{_braced(attributes)}{kinds}"
            return
        inside = {key: attributes.pop(key) for key, text in texts.items() if text.inside and key in attributes}
        ins = f"{_names(operation.ins)}{_braced(inside)} : {self._types(operation.ins)}"
        outs = f"{_names(operation.outs)} : {self._types(operation.outs)}"
        yield f"pto.{operation.name} ins({ins}) outs({outs}){_braced(attributes)}"

    def _result_types(self, operation: Operation) -> str:
        return self._types(operation.results) if len(operation.results) == 1 else f"({self._types(operation.results)})"

    def _arithmetic(self, operation: Operation) -> Iterator[str]:
        (result,) = operation.results
        source = operation.ins[0].type
        predicate = operation.attributes.get("predicate")
        kinds = f"{source} to {result.type}" if source != result.type and predicate is None else source
        word = f"{predicate}, " if predicate is not None else ""
        yield f"%{result.name} = {operation.name} {word}{_names(operation.ins)} : {kinds}"

    def _select(self, operation: Operation) -> Iterator[str]:
        (result,) = operation.results
        yield f"%{result.name} = arith.select {_names(operation.ins)} : {result.type}"

    def _constant(self, operation: Operation) -> Iterator[str]:
        (result,) = operation.results
        value = operation.attributes["value"]
        yield f"%{result.name} = arith.constant {literal(value)} : {result.type}"

    def _make_view(self, operation: Operation) -> Iterator[str]:
        (result,) = operation.results
        shape, strides = _names(operation.part("shape")), _names(operation.part("strides"))
        attributes = {key: _value("", value) for key, value in operation.attributes.items() if key != "layout"}
        attributes = {"layout": f"#pto.layout<{operation.attributes['layout']}>", **attributes}
        head = f"%{result.name} = pto.make_tensor_view {_names(operation.part('ptr'))}"
        yield f"{head}, shape = [{shape}], strides = [{strides}]{_braced(attributes)} : {self.type(result.type)}"

    def _part(self, operation: Operation) -> Iterator[str]:
        (result,), (view,) = operation.results, operation.part("view")
        offsets, sizes = _names(operation.part("offsets")), _names(operation.part("sizes"))
        kinds = f"{self.type(view.type)} -> {self.type(result.type)}"
        yield f"%{result.name} = pto.partition_view %{view.name}, offsets = [{offsets}], sizes = [{sizes}] : {kinds}"

    def _alloc(self, operation: Operation) -> Iterator[str]:
        parts = "".join(
            f" {part} = {_names(operation.part(part))}"
            for part in ("addr", "valid_row", "valid_col")
            if operation.part(part)
        )
        attributes = _dictionary(operation.attributes)
        yield f"{_results(operation)}pto.alloc_tile{parts} {attributes} : {self._types(operation.results)}"

    def _pointer(self, operation: Operation) -> Iterator[str]:
        ptr, offset = operation.part("ptr"), operation.part("offset")
        kinds = f"{self._types(ptr)} -> {self._types(operation.results)}"
        yield f"{_results(operation)}pto.addptr {_names(ptr)}, {_names(offset)} : {kinds}"

    def _assign(self, operation: Operation) -> Iterator[str]:
        tile, addr = operation.part("tile"), operation.part("addr")
        kinds = f"{self._types(tile)} -> {self._types(operation.results)}"
        yield f"{_results(operation)}pto.tassign {_names(tile)}, {_names(addr)} : {kinds}"

    def _subset(self, operation: Operation) -> Iterator[str]:
        tile, offsets = operation.part("tile"), _names(operation.part("offsets"))
        sizes = ", ".join(map(str, operation.attributes["sizes"]))
        yield f"{_results(operation)}pto.subset {_names(tile)}[{offsets}] sizes [{sizes}] : {self._types(tile)}"

    def _set_valid(self, operation: Operation) -> Iterator[str]:
        tile, row, col = (operation.part(part) for part in ("tile", "row", "col"))
        yield f"pto.set_validshape {_names(tile)}, {_names(row)}, {_names(col)} : {self._types(tile)}"

    def _load(self, operation: Operation) -> Iterator[str]:
        ptr, index = operation.part("ptr"), operation.part("index")
        kinds = f"{self._types(ptr)} -> {self._types(operation.results)}"
        yield f"{_results(operation)}pto.load_scalar {_names(ptr)}[{_names(index)}] : {kinds}"

    def _flag(self, operation: Operation) -> Iterator[str]:
        attributes = operation.attributes
        event = _names(operation.part("event_id")) or f"<{attributes['event_id']}>"
        yield f"pto.{operation.name}[<{attributes['src_pipe']}>, <{attributes['dst_pipe']}>, {event}]"

    def _barrier(self, operation: Operation) -> Iterator[str]:
        yield f"pto.barrier <{operation.attributes['pipe']}>"

    def _block_number(self, operation: Operation) -> Iterator[str]:
        yield f"{_results(operation)}pto.{operation.name}"

    def _loop(self, operation: Operation) -> Iterator[str]:
        (body,) = operation.bodies
        start, stop, step = (f"%{value.name}" for value in operation.ins)
        yield f"scf.for %{body.arguments[0].name} = {start} to {stop} step {step} {{"
        yield from self._body(body)
        yield f"}} {_dictionary(operation.attributes)}".rstrip()

    def _branch(self, operation: Operation) -> Iterator[str]:
        yield f"scf.if {_names(operation.ins)} {{"
        for number, body in enumerate(operation.bodies):
            if number:
                yield "} else {"
            yield from self._body(body)
        yield "}"

    def _end(self, operation: Operation) -> Iterator[str]:
        yield operation.name


WRITERS: dict[str, Callable[[_Draft, Operation], Iterator[str]]] = {
    "arith.constant": _Draft._constant,
    **dict.fromkeys(
        (f"arith.{name}" for name in (
            "addi", "subi", "muli", "divsi", "floordivsi", "remsi", "shli", "shrsi", "minsi", "maxsi", "andi", "ori",
            "xori", "cmpi", "index_cast", "extsi", "extui", "trunci", "sitofp",
        )),
        _Draft._arithmetic,
    ),
    "arith.select": _Draft._select,
    "make_tensor_view": _Draft._make_view,
    "partition_view": _Draft._part,
    "alloc_tile": _Draft._alloc,
    "addptr": _Draft._pointer,
    "tassign": _Draft._assign,
    "subset": _Draft._subset,
    "set_validshape": _Draft._set_valid,
    "load_scalar": _Draft._load,
    **dict.fromkeys(("set_flag", "wait_flag", "set_flag_dyn", "wait_flag_dyn"), _Draft._flag),
    "barrier": _Draft._barrier,
    **dict.fromkeys(("get_block_idx", "get_block_num"), _Draft._block_number),
    "scf.for": _Draft._loop,
    "scf.if": _Draft._branch,
    **dict.fromkeys(("scf.yield", "func.return"), _Draft._end),
}  # fmt: skip
"""What writes each operation that is no instruction."""


# --- Small parts ---


def _symbol(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain else _string(name)


def _string(text: str) -> str:
    """A string with everything but plain characters escaped."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _results(operation: Operation) -> str:
    return f"{', '.join(f'%{value.name}' for value in operation.results)} = " if operation.results else ""


def _names(values: tuple[Value, ...]) -> str:
    return ", ".join(f"%{value.name}" for value in values)


def _braced(attributes: dict[str, str]) -> str:
    return f" {{{', '.join(f'{key} = {text}' for key, text in attributes.items())}}}" if attributes else ""


def _dictionary(attributes: Any) -> str:
    return _braced({key: _value("", value) for key, value in attributes.items()}).strip()


def _value(kind: str, value: object) -> str:
    if kind:
        return f"#pto<{kind} {value}>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, tuple):
        return f"[{', '.join(_value('', item) for item in value)}]"  # type: ignore[misc]
    return _string(str(value))


def literal(value: int | Constant) -> str:
    """A number as MLIR writes it: infinities and what is no number by their bits."""
    if not isinstance(value, Constant):
        return str(value)
    number = float(np.array([value.bits], f"u{value.dtype.size}").view(value.dtype.numpy)[0])
    if not np.isfinite(number):
        return f"0x{value.bits:0{2 * value.dtype.size}X}"
    mantissa, mark, exponent = repr(number).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{mark}{exponent}"


# --- Types -----------------------------------------------------------------------------------------------------


def element_text(name: str) -> str:
    """An element type; those that MLIR does not know belong to the dialect."""
    return f"!pto.{name}" if name == "hif8" else name


def buffer_text(spec: TileSpec) -> str:
    """A tile as a buffer."""
    shape = f"{spec.rows}x{spec.cols}x{element_text(spec.dtype.mlir)}"
    layout = f"blayout={spec.blayout.text}, slayout={spec.slayout.text}, fractal={spec.fractal}"
    return (
        f"!pto.tile_buf<{spec.loc.text}, {shape}, valid={_extents(spec)}, {layout}, pad={tuple(Pad).index(spec.pad)}>"
    )


def value_text(spec: TileSpec) -> str:
    """A tile as a value (CO-ASM-04), with its valid extents where they are not all of it (A-28)."""
    shape = f"{element_text(spec.dtype.mlir)}, {spec.rows}, {spec.cols}"
    layout = f"{spec.blayout.text}, {spec.slayout.text}, {spec.fractal}, {spec.pad.text}"
    return f"!pto.tile<{spec.loc.text}, {shape}, {layout}, valid={_extents(spec)}>"


def _extents(spec: TileSpec) -> str:
    return "x".join(
        "?" if dynamic or is_unknown(extent) else str(extent)
        for extent, dynamic in zip(spec.valid, spec.dynamic, strict=True)
    )
