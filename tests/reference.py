"""Reference pages of the documentation site: the contract of an instruction, with examples that run, and errata."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from ptokit.render import pages
from ptokit.render.document import Code, Line, PagePart, TableRows, TextPage, Title

MOST_EXAMPLES = 3


def reference_page(name: str) -> TextPage:
    """The contract of an instruction, examples that can be run as they are, and errata of the source pages."""
    instruction = INSTRUCTIONS[name]
    return TextPage.of(pages.instruction_page(name).parts, _examples_of(instruction), _errata_of(instruction))


def _examples_of(instruction: Instruction) -> Iterator[PagePart]:
    """Programs for the clauses of an instruction: some that run, some that are refused."""
    named = {clause.id for target in spec.FAMILIES for clause in pages.clauses_of(instruction, target)}
    about = [(clause, each) for clause, each in spec.examples().items() if _is_about(instruction.name, each)]
    own = sorted(about, key=lambda each: each[0] not in named)
    meets = [(clause, each) for clause, each in own if each.meets and "pto.kernel" not in each.meets][:MOST_EXAMPLES]
    breaks = [(clause, each) for clause, each in own if each.breaks and spec.outcomes().get(clause)][:MOST_EXAMPLES]
    if meets or breaks:
        yield Title("Examples", "Each one is about a clause. The conformance tests run all of them.", level=2)
    for clause, each in meets:
        yield Line(f"{clause}: this runs.")
        yield Code(whole_example(instruction.name, each, clause))
    for clause, each in breaks:
        yield Line(f"{clause}: this does not. {pages.outcome(spec.outcomes()[clause][0])}")
        yield Code(each.breaks[0])


def _is_about(name: str, example: spec.Example) -> bool:
    call = f"pto.{name}("
    return name in example.each or call in example.meets or any(call in code for code in example.breaks)


def whole_example(name: str, example: spec.Example, clause: str) -> str:
    """An example that meets its clause, as a program."""
    known = spec.clauses().get(clause)
    targets = example.targets or (known.targets if known else spec.FAMILIES)
    lines = [*([f"op = pto.{name}"] if example.each else []), *example.meets.strip().splitlines()]
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    more = "import ml_dtypes\n" if "ml_dtypes" in example.meets else ""
    return (
        f'{more}import numpy as np\nimport ptokit as pto\n\ntarget = "{targets[-1]}"\nwith pto.target(target):\n{body}'
    )


def _errata_of(instruction: Instruction) -> Iterator[PagePart]:
    """Where the source pages contradict each other or leave a question open about an instruction."""
    clauses = [clause for target in spec.FAMILIES for clause in pages.clauses_of(instruction, target)]
    named = {clause.decision for clause in clauses}
    named |= {name for rule in instruction.rules for name in (rule.id, *rule.elsewhere)}
    named |= {name for fault in instruction.reports.faults.values() for name in (fault.rule, *fault.elsewhere)}
    rows = tuple((gap.id, gap.conflict, gap.decision) for gap in spec.gaps().values() if gap.id in named)
    if rows:
        yield Title("Errata of the source pages", "What they leave open, and what was decided.", level=2)
        yield TableRows(("decision", "question", "answer"), rows)
