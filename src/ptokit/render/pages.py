"""Reference pages, written from the definitions: a clause, a decision, a hazard, an instruction, the targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ptokit import spec
from ptokit.finding import counted
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import FLOAT8
from ptokit.isa.instruction import Instruction, Rule, hazard_text
from ptokit.isa.kernel import RouteKernel, kernels_of
from ptokit.isa.opaque import BY_MEMORY, OpaqueForm, opaque_rows
from ptokit.isa.policy import PtoEnum
from ptokit.isa.table import Difference, Table, lookup
from ptokit.isa.table import Table as ByTarget
from ptokit.program.budget import MANY
from ptokit.program.verify_call import CHECKS, CallCheck
from ptokit.render.document import Code, Heading, Items, Line, PagePart, TableRows, TextPage, Title
from ptokit.render.tables import SideBySide
from ptokit.target import PROFILES, Profile, families
from ptokit.target.profile import KB


class Name:
    """The name of a value that is not known: `dst.valid_rows` prints as that."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name if self._text == "" else f"{self._text}.{name}")

    def __getitem__(self, key: object) -> Name:
        return Name(f"{self._text}[{key}]")

    def __add__(self, other: object) -> Name:
        return Name(f"{self._text} + {other}")

    def __mul__(self, other: object) -> Name:
        return Name(f"{self._text} * {other}")

    def __iter__(self) -> Iterator[Name]:
        return iter((Name(f"{self._text}_rows"), Name(f"{self._text}_cols")))

    def __str__(self) -> str:
        return self._text


class Sketch(Name):
    """Replaces a call on a target."""

    def __init__(self, profile: Profile) -> None:
        super().__init__("")
        self._profile = profile
        self.values = Values()

    def lookup(self, table: Mapping[str, Any] | Table[Any], default: Any = None) -> Any:
        """The row of a table for the target, which is known without a call."""
        return lookup(table, self._profile.name, default)


class Values(dict[str, Name]):
    """Operands by name."""

    def __missing__(self, name: str) -> Name:
        return Name(name)


def sketch(rule: Rule, profile: Profile) -> str:
    """What the rule expects on a target."""
    return rule.expect(Sketch(profile)) if callable(rule.expect) else rule.expect  # type: ignore[arg-type]


# --- pages


SOURCES = {
    "000": "MSCATTER, general page",
    "001": "TSCATTER, long page",
    "002": "MSCATTER, A5 page",
    "003": "MGATHER page",
    "004": "TSCATTER, short page",
}


DECISIONS, HAZARDS = "A", "H"
"""The names of all decisions and of all hazards."""


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """Names that stand for several: documents (`MG`), parts of them (`MG-OOB`), all decisions, all hazards."""
    found: dict[str, list[str]] = {}
    for name in spec.clauses():
        for part in dict.fromkeys((name.partition("-")[0], name.rpartition("-")[0])):
            found.setdefault(part, []).append(name)
    found |= {DECISIONS: [*spec.gaps()], HAZARDS: [*spec.hazards()]}
    return {name: tuple(names) for name, names in found.items()}


def group_page(name: str) -> TextPage:
    """The statements of a group, one line each."""
    texts = {key: clause.statement for key, clause in spec.clauses().items()}
    texts |= {key: gap.conflict for key, gap in spec.gaps().items()}
    texts |= {key: hazard.situation for key, hazard in spec.hazards().items()}
    names = groups()[name]
    rows = tuple((key, texts[key]) for key in names)
    return TextPage.of(Title(name, _about(name, len(names))), TableRows(("name", "statement"), rows))


def _about(name: str, number: int) -> str:
    if name in (DECISIONS, HAZARDS):
        return f"{number} {'decisions' if name == DECISIONS else 'hazards'}"
    topic = TOPICS.get(name.partition("-")[2])
    return f"{topic}, {counted(number, 'clause')}" if topic else counted(number, "clause")


def index_page() -> TextPage:
    """Everything that has a page."""
    documents = [name for name in groups() if "-" not in name and name not in (DECISIONS, HAZARDS)]
    decisions = groups()[DECISIONS]
    hazards = tuple((hazard.id, hazard.situation) for hazard in spec.hazards().values())
    return TextPage.of(
        Line("ptokit explain NAME, where NAME is one of:", style="bold"),
        Heading(f"{len(INSTRUCTIONS)} instructions"),
        Line(", ".join(INSTRUCTIONS)),
        Line(f"opaque: {len(opaque_names())} more that are known by their effects only"),
        Heading(f"{len(hazards)} hazards"),
        TableRows(("hazard", "situation"), hazards),
        Heading(f"{len(spec.clauses())} clauses, by group"),
        TableRows(("document", "groups"), tuple((name, _parts(name)) for name in documents)),
        Heading(f"{len(decisions)} decisions"),
        Line(f"{decisions[0]} .. {decisions[-1]}; all of them: {DECISIONS}"),
    )


def _parts(document: str) -> str:
    """The groups of a document, with how many clauses each has."""
    inner = [(name, names) for name, names in groups().items() if name.startswith(f"{document}-")]
    return ", ".join(f"{name} {len(names)}" for name, names in inner) or _about(document, len(groups()[document]))


def rules_named(name: str) -> list[tuple[Instruction, Rule]]:
    """Every rule that carries a clause id, a decision number or a hazard number."""
    return [
        (instruction, rule)
        for instruction in INSTRUCTIONS.values()
        for rule in instruction.rules
        if name in (rule.id, *rule.elsewhere, *rule.kinds)
    ]


def clause_page(name: str) -> TextPage:
    """A clause: its statement, targets and rules, and code that meets and breaks it."""
    clause = spec.clauses()[name]
    parts: list[PagePart] = [Title(name, f"{', '.join(clause.targets)} · {clause.kind}"), Line(clause.statement)]
    if clause.verdict:
        parts.append(Line(f"Decided ({clause.decision}): {clause.verdict}", style="cyan"))
    parts.append(Line(f"Source: {_source(clause.source)}", style="dim"))
    if clause.header:
        parts.append(Line(f"Asserted by the real headers of: {', '.join(clause.header)}", style="dim"))
    return TextPage.of(parts, _rules(name), _example(name))


def gap_page(name: str) -> TextPage:
    """A gap of the documents and the decision that closes it."""
    gap = spec.gaps()[name]
    parts = [
        Title(name, "decision"),
        Line(gap.conflict),
        Line(f"Decided: {gap.decision}", style="cyan"),
        Line(gap.why, style="dim"),
    ]
    return TextPage.of(parts, _rules(name), _example(name))


SEEN_BY = {
    "verify": "the verifier, before anything runs",
    "launch": "the call, from the values it is given",
    "machine": 'the machine model (engine="machine"); eager calls cannot see it',
}


def hazard_page(name: str) -> TextPage:
    """A hazard: the targets that have it and the tools that do not report it."""
    hazard = spec.hazards()[name]
    parts = [
        Title(name, f"affects {hazard.affects} · silent on {hazard.silent}"),
        Line(hazard.situation),
        Line(f"What happens: {hazard.effect}"),
        Line(f"Level: {hazard.level}; first seen by: {SEEN_BY[hazard.seen_by]}"),
        Line(f"Instructions: {_instructions(hazard)}"),
        Line(f"See {', '.join(hazard.clauses)}", style="dim"),
    ]
    return TextPage.of(parts, _rules(name))


def _instructions(hazard: spec.Hazard) -> str:
    return "every one" if spec.EVERY_INSTRUCTION in hazard.instructions else ", ".join(hazard.instructions)


def _source(source: str) -> str:
    return "; ".join(f"{number} ({title})" for number, title in SOURCES.items() if number in source) or source


def _rules(name: str) -> Iterator[PagePart]:
    lines = [_rule_line(name, instruction, rule) for instruction, rule in rules_named(name)]
    lines += [f"every instruction: {_demand(check)}" for check in CHECKS if name in check.names]
    for instruction in INSTRUCTIONS.values():
        for case, fault in instruction.reports.faults.items():
            if name in (fault.rule, *fault.elsewhere, fault.kind):
                lines.append(f"{instruction.name}, at the call: {FAULTS[case]}")
    if lines:
        yield Heading("Rule")
        yield Items(tuple(dict.fromkeys(lines)))


FAULTS = {
    "outside": "an index outside the table or tile",
    "below": "an index below zero",
    "negative": "a negative index under clamp or wrap",
    "padding": "an index that names padding",
    "shared": "operands that share memory",
    "zero": "an integer divisor of zero",
}


def _rule_line(name: str, instruction: Instruction, rule: Rule) -> str:
    """Where a rule applies: for a clause, only the targets on which the rule carries it."""
    is_clause = name in (rule.id, *rule.elsewhere)
    on = {target: level for target, level in rule.on.items() if not is_clause or rule.clause(target) == name}
    levels = ", ".join(f"{level} on {target}" for target, level in on.items())
    kind = f" ({hazard_text(rule.kind)})" if rule.kind and rule.kind != name else ""
    case = f" [{rule.when.text}]" if rule.when.text else ""
    named = () if is_clause else dict.fromkeys(rule.clause(target) for target in on)
    clause = f" {', '.join(named)}" if named else ""
    return f"{instruction.name}, {rule.operand}{case}:{clause} {levels}{kind}"


def _example(name: str) -> Iterator[PagePart]:
    example, clause = spec.examples().get(name), spec.clauses().get(name)
    if example is None:
        return
    where = ", ".join(example.targets or (clause.targets if clause else spec.FAMILIES))
    if example.each:
        yield Line(f"\nop is each of {', '.join(example.each)}", style="dim")
    if example.meets:
        yield from _code(f"Meets it: runs clean (with pto.target(target), target one of {where})", example.meets)
    for code, shown in zip(example.breaks, spec.outcomes().get(name, ()), strict=False):
        yield from _code(f"Breaks it: {outcome(shown)}", code)


def outcome(shown: Mapping[str, str]) -> str:
    """The outcome of an example: once if it is the same on every target."""
    by_outcome: dict[str, list[str]] = {}
    for target, outcome in shown.items():
        by_outcome.setdefault(outcome, []).append(target)
    if len(by_outcome) == 1:
        return next(iter(by_outcome))
    return "; ".join(f"{', '.join(targets)}: {outcome}" for outcome, targets in by_outcome.items())


def _code(title: str, code: str) -> Iterator[PagePart]:
    yield Heading(title, is_minor=True)
    yield Code(code)


def instruction_page(name: str, target: str | None = None) -> TextPage:
    """The whole contract of an instruction, on one target or on all."""
    instruction = INSTRUCTIONS[name]
    profiles = [PROFILES[target]] if target else [PROFILES[n] for n in families()]
    parts: list[PagePart] = [Title(name, instruction.summary)]
    parts += [Heading("Meaning"), Items(tuple(instruction.meaning), is_fixed=True)]
    parts += [Heading("Operands and modifiers"), _parameters(instruction)]
    for profile in profiles:
        parts += _contract(instruction, profile)
    parts += [Heading("Spelling"), TableRows(("form", "text"), tuple(_spellings(instruction)), code=(1,))]
    parts += _clauses(instruction, profiles)
    return TextPage.of(parts)


def opaque_page(name: str) -> TextPage:
    """An instruction that is known by its effects only: its pipe and its forms."""
    row = opaque_rows()[name]
    pipe = {BY_MEMORY: "the pipe between its operands' memories", "ALL": "S, after all pipes"}.get(row.pipe, row.pipe)
    title = Title(name, "known by its effects only: what it writes has unspecified values")
    return TextPage.of(title, Line(f"Pipe: {pipe}"), Heading("Forms"), Items(tuple(map(_form_line, row.forms))))


def _form_line(form: OpaqueForm) -> str:
    pairs = zip(form.names, form.letters, strict=True)
    return ", ".join(f"{name} {EFFECTS[letter]}" for name, letter in pairs) or "no operands"


EFFECTS = {"w": "written", "u": "read and written", "r": "read", "s": "workspace", "n": "number"}


def opaque_list(_name: str) -> TextPage:
    """Every instruction that is known by its effects only."""
    about = "ptokit judges order, memory and time of these; their results are unspecified (docs/instructions.md)"
    return TextPage.of(Title("opaque", about), Line(", ".join(sorted(opaque_names()))))


def opaque_names() -> Collection[str]:
    """The instructions that are known by their effects only."""
    return opaque_rows().keys() - INSTRUCTIONS.keys()


def _spellings(instruction: Instruction) -> Iterator[tuple[str, ...]]:
    """The spelling in Python, in C++ and as text, and the events."""
    yield "Python", _python(instruction)
    texts, suffixed = dict(instruction.spellings), tuple(_suffixed(instruction))
    texts |= {"PTO-AS": (*texts.get("PTO-AS", ()), *suffixed)} if suffixed else {}
    yield from ((form, "\n".join(lines)) for form, lines in texts.items())
    if instruction.kernels:
        yield "Events", "{event = 0, waits = [0]} in text: the event that it signals, and those that it waits for"


def _python(instruction: Instruction) -> str:
    import inspect

    import ptokit

    given = inspect.signature(getattr(ptokit, instruction.name)).parameters.values()
    plain = [p.replace(annotation=p.empty, default=_default_of(p.default)) for p in given]
    return f"pto.{instruction.name}{inspect.Signature(plain)}"


def _default_of(value: object) -> object:
    return value.text if isinstance(value, PtoEnum) else value


def _suffixed(instruction: Instruction) -> Iterator[str]:
    """The opcode with its suffixes, the destination first."""
    from ptokit.text.ptoas.shapes import opcode_pattern, suffixes  # not needed for pages of clauses and hazards

    if instruction.op in suffixes():
        given = ", ".join(f"%{param.name}" for param in instruction.operands if not param.optional)
        more = "".join(f"[, %{param.name}]" for param in instruction.operands if param.optional)
        yield f"{opcode_pattern(instruction)} {given}{more} : (...)"


TOPICS = {
    "SEM": "Meaning", "MODE": "Mode", "OOB": "Out of bounds", "ATOM": "Atomics", "CONF": "Repeated destinations",
    "TYPE": "Types", "LOC": "Locations", "LAY": "Layouts", "SHAPE": "Shapes", "ALIGN": "Alignment",
    "DYN": "Dynamic extents", "NZ": "NZ", "L1": "Into L1", "SIMT": "SIMT", "SYNC": "Order between pipes",
    "BUDG": "Memory budget", "COST": "Cost", "PERF": "Performance", "ASM": "Text", "API": "C++",
    "HAZ": "Accepted silently elsewhere", "EX": "Examples",
}  # fmt: skip
"""Parts of the documents, by the middle of a clause id."""
OTHER_TOPIC = "Rules and values"


def clauses_of(instruction: Instruction, target: str) -> list[spec.Clause]:
    """Every clause that is about an instruction on a target: of its documents, and what its rules and faults name."""
    named = {name for rule in instruction.rules for name in (rule.id, *rule.elsewhere)}
    named |= {name for fault in instruction.reports.faults.values() for name in (fault.rule, *fault.elsewhere)}
    groups = {name.rpartition("-")[0] for name in named if name.startswith("CP-")}
    targets = spec.FAMILIES if spec.family_of(target) in spec.OURS else (target,)
    return [
        clause
        for clause in spec.clauses().values()
        if all(spec.is_one_of(name, clause.targets) for name in targets)
        and (
            clause.id.partition("-")[0] in instruction.pages.documents
            or clause.id in named
            or clause.id.rpartition("-")[0] in groups
        )
    ]


def _clauses(instruction: Instruction, profiles: Sequence[Profile]) -> Iterator[PagePart]:
    """The statements of the documents by topic; with targets, if the page is about several."""
    found = {clause.id: clause for profile in profiles for clause in clauses_of(instruction, profile.name)}
    parts: dict[str, list[spec.Clause]] = {topic: [] for topic in (*TOPICS.values(), OTHER_TOPIC)}
    for clause in (clause for name, clause in spec.clauses().items() if name in found):
        parts[TOPICS.get(clause.id.split("-")[1], OTHER_TOPIC)].append(clause)
    if found:
        yield Title("Clauses", "what the documents say, and what was decided", level=2)
    for topic, clauses in ((topic, clauses) for topic, clauses in parts.items() if clauses):
        yield Heading(topic)
        columns = ("clause", *(("targets",) if len(profiles) > 1 else ()), "statement")
        where = [(", ".join(clause.targets),) if len(profiles) > 1 else () for clause in clauses]
        rows = ((c.id, *targets, _statement(c)) for c, targets in zip(clauses, where, strict=True))
        yield TableRows(columns, tuple(rows))


def _statement(clause: spec.Clause) -> str:
    decided = f" Decided ({clause.decision}): {clause.verdict}" if clause.verdict else ""
    return clause.statement + decided


def _parameters(instruction: Instruction) -> TableRows:
    rows = [(p.name, f"{p.access}{', optional' if p.optional else ''}", p.about) for p in instruction.operands]
    for modifier in instruction.modifiers:
        about = f"{modifier.about}: {modifier.choices}"
        rows.append((f"{modifier.name}=", f"default {modifier.default_name}", about))
    if instruction.kernels:  # it runs on a pipe; `tassign` does not
        rows.append(("wait=", "default none", "events of earlier calls that it waits for; every call returns one"))
    return TableRows(("name", "", "what it is"), tuple(rows))


def _contract(instruction: Instruction, profile: Profile) -> Iterator[PagePart]:
    yield Title(f"On {profile.name}", profile.title, level=2)
    yield from _section(
        f"Differences from {profile.origin}",
        "what differs, source",
        ((row.text, row.source) for row in differences(instruction, profile)),
    )
    yield from (Items((fact,)) for fact in lookup(instruction.pages.facts, profile.name, ()))
    for level, title in TITLES.items():
        rules = [rule for rule in instruction.rules if rule.level_on(profile.name) == level]
        yield from _section(title, RULE, (_rule_row(rule, profile) for rule in rules))
    yield from _section("Refused in every instruction, unless", "clause, what must hold, hazard", _common(profile))
    faults = instruction.reports.faults.items()
    at_run_time = ((f.clause(profile.name), case, f.kind or "", f.fix) for case, f in faults)
    yield from _section("Refused at run time", "clause, case, hazard, fix", at_run_time)
    for level, title in IN_CPP.items():
        emitted = [rule for rule in instruction.cpp.headers if rule.level_on(profile.name) == level]
        yield from _section(title, RULE, (_rule_row(rule, profile) for rule in emitted))
    duties = (clause for clause in clauses_of(instruction, profile.name) if clause.kind == "hazard")
    yield from _section(
        "Duties of the caller", "clause, statement", ((clause.id, _statement(clause)) for clause in duties)
    )
    yield from _section("Hazards", "hazard, level, first seen, situation, clauses", _hazards(instruction, profile))
    yield from _machine(instruction, profile)


def differences(instruction: Instruction, profile: Profile) -> tuple[Difference, ...]:
    """The differences of a revision in one instruction."""
    return tuple(row for row in profile.revision.rows if row.instruction == instruction.name)


RULE = "clause, operand, case, what must hold, hazard"
IN_CPP = {
    "hazard": "Refused when C++ is emitted, and warned of in a check, unless",
    "note": "Refused when C++ is emitted, and noted in a check, unless",
}
TITLES = {"error": "Refused, unless", "hazard": "Warned of, unless", "note": "Notes"}


def _section(title: str, columns: str, rows: Iterable[tuple[str, ...]]) -> Iterator[PagePart]:
    """A section with a table, unless it is empty; `columns` are its columns' names."""
    found = tuple(rows)
    if found:
        yield Heading(title)
        yield TableRows(tuple(columns.split(", ")), found)


def _rule_row(rule: Rule, profile: Profile) -> tuple[str, ...]:
    return rule.clause(profile.name), rule.operand, rule.when.text, sketch(rule, profile), hazard_text(rule.kind)


def _common(profile: Profile) -> Iterator[tuple[str, ...]]:
    """The checks of every instruction that apply on a target."""
    for check in CHECKS:
        rules = [name for name in check.names if name not in spec.hazards() and spec.holds(name, profile.name)]
        kinds = [name for name in check.names if name in spec.hazards() and _level(spec.hazards()[name], profile)]
        if rules:
            yield ", ".join(rules), _demand(check), ", ".join(kinds)


def _demand(check: CallCheck) -> str:
    """What a check demands, in one line."""
    return " ".join(str(check.run.__doc__).split())


def _level(hazard: spec.Hazard, profile: Profile) -> str:
    return hazard.level_on(profile.name)


def _hazards(instruction: Instruction, profile: Profile) -> Iterator[tuple[str, ...]]:
    """The hazards of an instruction on a target: level, what detects it first, situation, clauses."""
    for hazard in spec.hazards().values():
        level = _level(hazard, profile)
        if level and hazard.concerns(instruction.name):
            rules = ", ".join(name for name in hazard.clauses if spec.holds(name, profile.name))
            yield hazard.id, level, f"by {hazard.seen_by}", hazard.situation, rules


def _machine(instruction: Instruction, profile: Profile) -> Iterator[PagePart]:
    kernels = kernels_of(instruction, profile.name)
    piped = (_pipe_row(route, kernel) for route, kernel in kernels.items() if kernel.effects)
    yield from _section("Pipes", "route, operands and pipes, flags inside", piped)
    launches = ((route, str(kernel.launch.__doc__)) for route, kernel in kernels.items() if kernel.launch)
    yield from _section("SIMT launch", "route, shape", launches)
    budget = profile.budget(dyn_ub=0)
    if budget:
        yield Heading(f"UB for tiles: {_kb(budget.limit)}; {_kb(budget.available)} without dyn_ub")
    own = set(instruction.pages.documents) - {COMMON}
    costs = [name for name in profile.statements if name.partition("-")[0] in own]
    yield from _section("Cost", "clause, statement", ((name, spec.clauses()[name].statement) for name in costs))


COMMON = "CO"
"""The part of the clause table that is about several instructions."""


def _pipe_row(route: str, kernel: RouteKernel) -> tuple[str, ...]:
    names = ("before", "after_fill", "each_row", "between", "after")
    flags = {name: getattr(kernel.handshake, name) for name in names}
    chains = "; ".join(f"{name} {' '.join(f'{a}>{b}' for a, b in pairs)}" for name, pairs in flags.items() if pairs)
    return route, ", ".join(f"{e.operand} {e.access} {e.pipe}" for e in kernel.effects), chains


def targets_table() -> SideBySide:
    """The profiles side by side."""
    columns = [(profile.name, [fact(profile) for fact in FACTS.values()]) for profile in PROFILES.values()]
    return SideBySide("Targets", [*FACTS], columns)


def _kb(size: int | None) -> str:
    return "host memory" if size is None else f"{size // KB} KB"


def _types(table: ByTarget[Any], profile: Profile) -> str:
    types = table.get(profile.name)
    return "every type" if types is None else f"{len(types)}: 8-bit floats {'yes' if FLOAT8[0] in types else 'no'}"


def _budget(profile: Profile, fact: str) -> str:
    budget = profile.budget(dyn_ub=0)
    return _kb(getattr(budget, fact)) if budget else "no limit"


def _largest_launch(profile: Profile) -> str:
    launches = (kernel.launch(MANY, MANY) for kernel in profile.kernels.values() if kernel.launch)
    largest = max((shape for shape in launches if shape), key=lambda shape: shape.threads, default=None)
    return f"{largest.lanes} x up to {largest.warps}" if largest else "none"


MEMORIES = {
    memory.name: loc
    for profile in PROFILES.values()
    for loc, memory in profile.memories.items()
    if memory.size is not None
}
"""The on-chip memories by name, and the location of their tiles."""
FACTS = {
    "machine": lambda p: p.title,
    "revision": lambda p: p.revision.state or "none",
    **{name: lambda p, loc=loc: _kb(p.memories[loc].size) for name, loc in MEMORIES.items()},
    "UB for tiles": lambda p: _budget(p, "limit"),
    "UB without dyn_ub": lambda p: _budget(p, "available"),
    "cores": lambda p: " ".join(f"{p.costs[f'{core.name} cores']:g} {core.name}" for core in p.cores) or "none",
    "pipes": lambda p: " ".join(p.pipes) or "none",
    "event ids": lambda p: str(p.event_ids or "none"),
    "SIMT launch": _largest_launch,
    **{
        f"{instruction.name} types": lambda p, types=instruction.pages.types: _types(types, p)
        for instruction in INSTRUCTIONS.values()
        if instruction.pages.types is not None
    },
    "Left tile": lambda p: p.left_form,
}
