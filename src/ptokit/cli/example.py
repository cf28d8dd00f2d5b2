"""An example command line: plausible values for missing arguments."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Param
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable
from ptokit.lang.loaded import TextKernel
from ptokit.lang.source import Unreadable, base_name, tree_of
from ptokit.program.expr import Expr, Var, evaluate, variables
from ptokit.text.memories import is_unshaped

EXTENT = 64
"""The extent if the kernel states none."""
NUMBER = "8"
"""The integer if the kernel states none."""


def example(kernel: Launchable, words: Sequence[str], missing: Iterable[str]) -> str:
    """The command again, with a value for every argument that is missing."""
    values = _of_text(kernel) if isinstance(kernel, TextKernel) else _of_source(kernel)
    added = [word for name in missing for word in ("--arg", f"{name}={values.get(name, NUMBER)}")]
    return shlex.join(["ptokit", *words, *added])


def _array(kind: str, shape: Sequence[int]) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


def _of_text(kernel: TextKernel) -> dict[str, str]:
    """The text states what its arguments are."""
    found: dict[str, str] = {}
    numbers = {Var(name): int(NUMBER) for name, kind in kernel.parameters.items() if kind == "integer"}
    for name, kind in kernel.parameters.items():
        if kind != "array":
            found[name] = NUMBER if kind == "integer" else "1.0"
            continue
        views = [tensor for tensor in kernel.program.tensors.values() if tensor.array == name]
        view = next((tensor for tensor in views if not is_unshaped(tensor)), None)
        shape = [_extent(extent, numbers) for extent in view.shape] if view else [EXTENT * EXTENT]
        found[name] = _array(kernel.program.tensors[name].dtype.name, shape)
    return found


def _extent(extent: Expr, numbers: dict[Var, int]) -> int:
    return max(evaluate(extent, numbers), 1) if variables(extent) <= numbers.keys() else EXTENT


def _of_source(kernel: Launchable) -> dict[str, str]:
    """An array for each parameter that is sliced, has its shape read or is an operand; else a number."""
    if not isinstance(kernel, Kernel):
        return {}
    try:
        nodes = [*ast.walk(tree_of(kernel.function.__code__))]
    except Unreadable:
        nodes = []
    ranks = _ranks(nodes)
    indices = {*_indices(nodes)}
    words = _words(nodes)
    found: dict[str, str] = {}
    for name in kernel.parameters:
        if name in kernel.constants:
            found[name] = words.get(name, NUMBER)
        elif name in indices:
            found[name] = _array("int32", [EXTENT] * max(1, ranks.get(name, 0)))
        elif name in ranks or not nodes:
            found[name] = _array("float32", [EXTENT] * max(2, ranks.get(name, 0)))
    return found


def _ranks(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """The least number of dims of each array, by its uses: `x[a:b, c:d]`, `x.shape[1]`, an operand."""
    found: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            rank = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 0
            found[node.value.id] = max(found.get(node.value.id, 0), rank)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and (name := base_name(node)):
            rank = node.slice.value + 1 if isinstance(node.slice.value, int) else 0
            found[name] = max(found.get(name, 0), rank)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, 0)
        elif isinstance(node, ast.Call) and _called(node) in INSTRUCTIONS:
            for operand in node.args:
                found.setdefault(base_name(operand) or "", 0)
    return found


def _indices(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Parameters that are indices: operands of an instruction, or arrays that such an operand is loaded from."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    loads = [(base_name(call.args[0]), array) for call in calls for array in _blocks(call)]
    for call in calls:
        if _called(call) == "load_scalar":
            yield base_name(call.args[0]) or ""
        for param, given in _operands(call):
            if param.role == "index":
                yield base_name(given) or ""
                yield from (array or "" for tile, array in loads if tile == base_name(given))


def _operands(call: ast.Call) -> list[tuple[Param, ast.expr]]:
    instruction = INSTRUCTIONS.get(_called(call))
    return [*zip(instruction.operands, call.args, strict=False)] if instruction else []


def _blocks(call: ast.Call) -> list[str | None]:
    """Arrays that an instruction loads a block of."""
    return [base_name(given) for param, given in _operands(call) if param.is_block and param.access == "read"]


def _words(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """A value for each parameter that is passed on as a modifier of an instruction or as a tile's element type."""
    found: dict[str, str] = {}
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        instruction = INSTRUCTIONS.get(_called(call))
        choices = {modifier.name: modifier.enum for modifier in instruction.modifiers} if instruction else {}
        for keyword in call.keywords:
            if keyword.arg in choices and isinstance(keyword.value, ast.Name):
                found[keyword.value.id] = next(iter(choices[keyword.arg])).text
        if _called(call) == "Tile" and len(call.args) > 1 and isinstance(call.args[1], ast.Name):
            found[call.args[1].id] = "float32"
    return found


def _called(call: ast.Call) -> str:
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
