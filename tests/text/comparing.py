"""Modules of MLIR, compared."""

from __future__ import annotations

from ptokit.text.mlir import Module


def facts(module: Module) -> list[object]:
    """All that a module says, with values and blocks as numbers in their order, apart from names and comments."""
    ops = list(module.op.walk())
    blocks = [block for op in ops for region in op.regions for block in region.blocks]
    numbers = {id(block): number for number, block in enumerate(blocks)}
    values = [value for block in blocks for value in block.arguments] + [value for op in ops for value in op.results]
    numbers |= {id(value): number for number, value in enumerate(values)}
    found: list[object] = [
        module.resources,
        *((op.name, op.form is None, op.attributes, op.properties, op.location, [value.type for value in op.results],
         [(part, [numbers.get(id(value), -1) for value in given]) for part, given in op.parts.items() if given],
         [numbers[id(block)] for block in op.successors],
         [[numbers[id(block)] for block in region.blocks] for region in op.regions])
        for op in ops)
    ]  # fmt: skip
    return found + [[(value.type, value.location) for value in block.arguments] for block in blocks]
