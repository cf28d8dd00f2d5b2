"""The stub of `ptokit.lang.instructions`, from the definitions of the instructions; `make generated` writes it."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import ptokit
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from ptokit.lang.instructions import NAMES, declaration, documentation, enums

FILE = Path(ptokit.__file__).parent / "lang" / "instructions.pyi"
WIDTH = 120
HEADER = '''"""The Python function of each instruction. Written by `make generated`."""

{imports}
from ptokit.lang.dispatch import Event, Wait
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

__all__ = [{names}]
'''


def stub() -> str:
    """The text of the stub."""
    by_module: dict[str, list[str]] = {}
    for name, enum in sorted(enums().items()):
        by_module.setdefault(enum.__module__, []).append(name)
    imports = [f"from {module} import ({_list(names)})" for module, names in sorted(by_module.items())]
    names = _list([f'"{name}"' for name in (*sorted(enums()), *NAMES)])
    functions = (_function(INSTRUCTIONS[name]) for name in NAMES)
    return "\n".join((HEADER.format(imports="\n".join(imports), names=names), *functions))


def _function(instruction: Instruction) -> str:
    head = declaration(instruction)
    if len(head) > WIDTH:
        name, _, rest = head.partition("(")
        parameters, _, result = rest.rpartition(")")
        head = f"{name}({_list(parameters.split(', '))}){result}"
    first, *others = documentation(instruction).splitlines()
    lines = "\n".join((f'"""{first}', *others, '"""'))
    return f"{head}\n{indent(lines, '    ')}\n"


def _list(parts: list[str]) -> str:
    return "\n" + "".join(f"    {part},\n" for part in parts)
