"""Writes the pages of the documentation site: those of docs/, and reference and tutorials from definitions and sources.

`python tests/site.py` writes build/pages and build/mkdocs.yml; `make docs` builds build/site from them. Links between
files of the repository become links between pages.
"""

from __future__ import annotations

import ast
import enum
import inspect
import posixpath
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ptokit as pto
from ptokit import spec
from ptokit.finding import by_level
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from ptokit.target import PROFILES
from tests.examples.test_gallery import GALLERY, rng
from tests.markdown import markdown, plain
from tests.pictures import latest_on_gpu
from tests.reference import reference_page

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/pages"
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "tutorials/index.md",
    "docs/hazards/README.md": "hazards/index.md",
}
"""Files whose pages have another name."""
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[a-z]*.py"))
MORE = {
    "MachineReport": "ptokit.machine.report",
    "Timeline": "ptokit.machine.timeline",
    "Traffic": "ptokit.machine.ways",
    "LaneOutcomes": "ptokit.machine.outcomes",
    "LaneTotals": "ptokit.machine.outcomes",
}
"""Classes of results that are not in `ptokit` itself, by module."""
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\((?P<to>[^)\s]+)\)")
NAME = re.compile(r"(?<!\[)`@?(?P<name>\w+)(?:\([^`]*\))?`")
WITH_NAMES = ("docs/instructions.md", "docs/calls.md")
"""Pages on which names of instructions and of the API become links."""
FENCE = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)


# --- files of the repository


@cache
def places() -> dict[str, str]:
    """The page of each file of the repository that has one."""
    found = {
        str(path.relative_to(ROOT)): str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")
    }
    found |= {f"docs/pictures/{path.name}": f"pictures/{path.name}" for path in (ROOT / "docs/pictures").glob("*.svg")}
    found[str(latest_on_gpu().relative_to(ROOT))] = "gpu.md"
    return found | MOVED | {f"examples/{name}.py": f"tutorials/{name}.md" for name in EXAMPLES}


def copied(file: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / file).read_text(encoding="utf-8")
    text = outside_code(text, lambda part: LINK.sub(lambda link: relinked(file, link), part))
    return (
        outside_code(text, lambda part: NAME.sub(partial(named, places()[file]), part)) if file in WITH_NAMES else text
    )


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with its fenced blocks as they are."""
    return "".join(part if part.startswith("```") else change(part) for part in FENCE.split(text))


def relinked(file: str, link: re.Match[str]) -> str:
    """A link between files as one between pages; the text alone if the site has no such page."""
    address, _, anchor = link["to"].partition("#")
    if "://" in address or not address:
        return link[0]
    to = posixpath.normpath(posixpath.join(posixpath.dirname(file), address))
    page = places().get(to) or places().get(f"{to}/README.md")
    if page is None:
        return link["text"]
    return f"{link['mark']}[{link['text']}]({relative(places()[file], page)}{'#' + anchor if anchor else ''})"


def named(page: str, found: re.Match[str]) -> str:
    """A name in code as a link to its page."""
    name = found["name"]
    to = f"reference/{name}.md" if name in INSTRUCTIONS else api_page(name) if name in api_objects() else None
    return f"[{found[0]}]({relative(page, to)})" if to else found[0]


def relative(page: str, to: str) -> str:
    """The address of a page from another."""
    return posixpath.relpath(to, posixpath.dirname(page) or ".")


# --- links to names


def link_from(page: str) -> Callable[[str], str | None]:
    """Addresses of clauses, decisions and hazards, from a page."""

    def found(name: str) -> str | None:
        to = address_of(name)
        return relative(page, to) if to and not to.startswith(f"{page}#") else None if to is None else to[len(page) :]

    return found


def address_of(name: str) -> str | None:
    """The page of a clause, a decision, a hazard or an instruction, with its anchor."""
    if name in spec.clauses():
        return f"reference/clauses/{group_of(name)}.md#{name.lower()}"
    if name in spec.gaps():
        return f"reference/decisions.md#{name.lower()}"
    if f"docs/hazards/{name}.md" in places():
        return f"hazards/{name}.md"
    if name in spec.hazards():
        return "hazards/index.md"
    return f"reference/{name}.md" if name in INSTRUCTIONS else None


def group_of(clause: str) -> str:
    """The clauses of one topic are on one page: `MG-OOB` of `MG-OOB-08`."""
    return clause.rpartition("-")[0]


# --- the reference

PICTURED = {
    "mgather": ("gather-policies", "What the policies do with indices outside the table"),
    "mscatter": ("scatter-policies", "What the policies do with indices outside the table"),
    "tload": ("valid-region", "A tile with a valid region"),
    "textract": ("layout-nz", "A tile in NZ layout"),
}
"""Pictures of reference pages, and what they show."""
OPERANDS = "\n## Operands and modifiers\n"


def illustrated(name: str, text: str) -> str:
    """The page of an instruction with its picture, if it has one."""
    if name not in PICTURED:
        return text
    picture, about = PICTURED[name]
    before, head, after = text.partition(OPERANDS)
    return f"{before}\n![{about}](../pictures/{picture}.svg)\n{head}{after}"


def instructions() -> Iterator[tuple[str, str]]:
    for name in INSTRUCTIONS:
        page = f"reference/{name}.md"
        yield page, illustrated(name, markdown(reference_page(name), link_from(page)))
    rows = "\n".join(f"| [{name}]({name}.md) | {plain(each.summary)} |" for name, each in sorted(INSTRUCTIONS.items()))
    head = (
        "# Instructions\n\nWhat each instruction means, what each target accepts, its hazards, pipes and spellings: "
        "written from the definitions\nthat the verifier and the engines use. `ptokit explain NAME` prints the same. "
        "Instructions that are [known by their\neffects only](opaque.md) have no page of their own."
    )
    yield "reference/index.md", f"{head}\n\n| instruction | |\n| --- | --- |\n{rows}\n"
    names = sorted(pages.opaque_names())
    opaque = "\n".join(markdown(pages.opaque_page(name), level=2) for name in names)
    yield "reference/opaque.md", f"# Opaque instructions\n\nSee [instructions](../instructions.md).\n\n{opaque}"


RUNS = (
    "Examples run after `import numpy as np` and `import ptokit as pto`, inside `with pto.target(...)`.\n"
    "The conformance tests run all of them on each target."
)


def clauses() -> Iterator[tuple[str, str]]:
    groups: dict[str, list[str]] = {}
    for name in spec.clauses():
        groups.setdefault(group_of(name), []).append(name)
    for group, names in groups.items():
        page = f"reference/clauses/{group}.md"
        parts = [markdown(pages.clause_page(name), link_from(page), level=2) for name in names]
        yield page, "\n".join([f"# {group}\n\n{_topic(group)}. {RUNS}\n", *parts])
    rows = "\n".join(
        f"| [{group}]({group}.md) | {_topic(group)} | {' '.join(map(_number, names))} |"
        for group, names in groups.items()
    )
    about = "Every statement of the source documents, by topic, with code that meets and code that breaks it."
    yield (
        "reference/clauses/index.md",
        f"# Clauses\n\n{about}\n\n| group | about | clauses |\n| --- | --- | --- |\n{rows}\n",
    )


def _number(clause: str) -> str:
    return f"[{clause[-2:]}]({group_of(clause)}.md#{clause.lower()})"


DOCUMENTS = {
    "MG": "mgather", "MS": "mscatter", "TS": "tscatter", "TL": "tload", "TT": "tstore", "TV": "tmov", "CO": "common",
    "CP": "compute", "KN": "kernels", "SL": "slices",
}  # fmt: skip


def _topic(group: str) -> str:
    document, _, topic = group.partition("-")
    return f"{DOCUMENTS.get(document, document)}: {pages.TOPICS.get(topic, topic.lower() or 'all')}"


def decisions() -> Iterator[tuple[str, str]]:
    page = "reference/decisions.md"
    parts = [markdown(pages.gap_page(name), link_from(page), level=2) for name in spec.gaps()]
    head = f"# Decisions\n\nWhere the documents contradict each other or leave a question open. {RUNS}\n"
    yield page, "\n".join([head, *parts])


def targets() -> Iterator[tuple[str, str]]:
    names = " | ".join(PROFILES)
    rows = [
        f"| {title} | {' | '.join(plain(fact(p)) for p in PROFILES.values())} |" for title, fact in pages.FACTS.items()
    ]
    head = "# Targets\n\n`ptokit targets` prints the same."
    yield (
        "reference/targets.md",
        "\n".join([f"{head}\n", f"| | {names} |", "| --- " * (len(PROFILES) + 1) + "|", *rows, ""]),
    )


# --- the API


def api_objects() -> dict[str, Any]:
    """Public objects that are no instructions."""
    found = {name: getattr(pto, name) for name in pto.__all__ if name not in INSTRUCTIONS}
    return found | {name: getattr(import_module(module), name) for name, module in MORE.items()}


def api_page(name: str) -> str:
    """Functions are apart: some differ from a class only by an upper-case letter, which some file systems ignore."""
    return f"reference/api/{name}.md" if isinstance(api_objects()[name], type) else f"reference/api/functions/{name}.md"


def api() -> Iterator[tuple[str, str]]:
    for name, value in api_objects().items():
        yield api_page(name), f"# {name}\n\n{''.join(_described(name, value, api_page(name)))}"
    rows = "\n".join(
        f"| [{name}]({relative('reference/api/index.md', api_page(name))}) | {_first_line(value)} |"
        for name, value in sorted(api_objects().items(), key=lambda each: each[0].lower())
    )
    head = (
        "# API\n\nWhat `import ptokit as pto` has besides the [instructions](../index.md): written from the docstrings."
    )
    head += " The\n[table of calls](../../calls.md) shows them by task."
    yield "reference/api/index.md", f"{head}\n\n| name | |\n| --- | --- |\n{rows}\n"


def _described(name: str, value: Any, page: str) -> Iterator[str]:
    home = "" if name in MORE else "pto."
    if isinstance(value, enum.EnumType):
        yield f"{_doc(value)}\n\n| name | text |\n| --- | --- |\n"
        yield "".join(f"| `{home}{name}.{each.name}` | `{getattr(each, 'text', each.value)}` |\n" for each in value)
        return
    yield f"```text\n{home}{name}{_signature(value)}\n```\n\n{_doc(value)}\n"
    if isinstance(value, type):
        yield from (f"\n## {member}\n\n{text}\n" for member, text in _members(value))


def _members(value: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties with docstrings, and documented fields."""
    fields = getattr(value, "__dataclass_fields__", {})
    for name in (name for name in dir(value) if name not in fields):
        member = inspect.getattr_static(value, name, None)
        if name.startswith("_") or not any(
            name in vars(base) for base in value.__mro__ if base.__module__.startswith("ptokit")
        ):
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            yield name, _doc(member)
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(value, name)
            yield f"{name}()", f"```text\n{name}{_signature(function)}\n```\n\n{_doc(function)}"
    for name, text in _fields(value):
        yield name, text


def _fields(value: type) -> Iterator[tuple[str, str]]:
    """Fields with the string that follows them in the source."""
    try:
        (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(value))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    for one, other in zip(body.body, body.body[1:], strict=False):  # type: ignore[attr-defined]
        match one, other:
            case ast.AnnAssign(target=ast.Name(name), annotation=kind), ast.Expr(ast.Constant(str(about))):
                yield name, f"`{ast.unparse(kind)}`. {_prose(about)}"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    given = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    text = re.sub(r"<function (\w+) at \w+>", r"\1", str(inspect.Signature(given)))
    return "\n".join(textwrap.wrap(text, 88, subsequent_indent="    ", break_long_words=False))


def _doc(value: Any) -> str:
    return _prose(inspect.getdoc(value) or "")


def _prose(text: str) -> str:
    """A docstring: Markdown as it is, with examples of the prompt as code."""
    text = re.sub(r"(?m)(^>>> .*(?:\n(?!\n).*)*)", r"```pycon\n\1\n```", inspect.cleandoc(text))
    return outside_code(text, lambda part: part.replace("<", "&lt;").replace("[", "\\["))


def _first_line(value: Any) -> str:
    return (_doc(value).split("\n\n")[0]).replace("\n", " ").replace("|", "\\|")


# --- tutorials


def tutorials() -> Iterator[tuple[str, str]]:
    for name in EXAMPLES:
        yield f"tutorials/{name}.md", tutorial(name)


def tutorial(name: str) -> str:
    """A kernel of the gallery: its design, its source, its timeline, and how to run it."""
    source = (ROOT / f"examples/{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, design = (ast.get_docstring(tree) or name).partition("\n\n")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    kernels = [node for node in functions if any("kernel" in ast.unparse(each) for each in node.decorator_list)]
    helpers = [node for node in functions if node not in kernels and node.name != "main"]
    shown = [f"# {title.rstrip('.')}\n\n{design}"]
    shown += ["## Targets", *(verdicts(node.name) for node in kernels)]
    for node in kernels:
        shown += [f"## The kernel `{node.name}`", _source(source, node), *_timeline(node.name)]
    shown += ["## What it is compared with", *(_source(source, node) for node in helpers)]
    shown += [
        "## Run it",
        f"```sh\npython examples/{name}.py          # on every target that accepts it, compared with NumPy\n"
        f"ptokit check examples/{name}.py    # and on the machine, for races, budgets and time\n```",
        "[All kernels of the gallery](index.md)",
    ]
    return "\n\n".join(shown) + "\n"


def verdicts(kernel: str) -> str:
    """What `pto.check` says of a kernel on each target."""
    entry = next(entry for entry in GALLERY if entry.name == kernel)
    found = pto.check(entry.kernel, **entry.make(rng(), **entry.sizes[0]), grid=2).targets
    rows = [f"| `{target}` | {_verdict(result)} |" for target, result in found.items()]
    return "\n".join([f"| target | `{kernel}` |", "| --- | --- |", *rows])


def _verdict(result: pto.TargetReport) -> str:
    first = next((each for each in result.findings if each.level == "error"), None)
    if first is None:
        return f"{result.verdict}{'; ' + ', '.join(by_level(result.findings)) if result.findings else ''}"
    return f"refused: {plain(first.message)} ({first.rule}). {plain(first.fix)}"


def _timeline(kernel: str) -> Iterator[str]:
    if (ROOT / f"docs/pictures/gallery-{kernel}.svg").exists():
        yield f"![Timeline of {kernel} on a5](../pictures/gallery-{kernel}.svg)"


def _source(source: str, node: ast.FunctionDef) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "```python\n" + "\n".join(source.splitlines()[first - 1 : node.end_lineno]) + "\n```"


# --- the site


def all_pages() -> dict[str, str]:
    """The text of every page, by its path."""
    texts = {page: copied(file) for file, page in places().items() if file.endswith(".md")}
    for made in (instructions, clauses, decisions, targets, api, tutorials):
        texts |= dict(made())
    return texts


FOLDER = re.compile(r"^(?P<indent> +)- (?P<folder>[\w/-]+/)index\.md$", re.MULTILINE)


def config(names: list[str]) -> str:
    """mkdocs.yml with the pages of each folder below its index page."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/.-]+\.md", text))

    def whole(found: re.Match[str]) -> str:
        below = (name for name in names if name.startswith(found["folder"]) and name not in listed)
        own = [name for name in below if "/" not in name[len(found["folder"]) :] or found["folder"].endswith("api/")]
        return "\n".join([found[0], *(f"{found['indent']}- {Path(name).stem}: {name}" for name in sorted(own))])

    text = FOLDER.sub(whole, text)
    return text.replace("build/pages", "pages").replace("build/site", "site")


def write() -> int:
    """Write the pages; returns how many."""
    texts = all_pages()
    shutil.rmtree(OUT, ignore_errors=True)
    for page, text in texts.items():
        (OUT / page).parent.mkdir(parents=True, exist_ok=True)
        (OUT / page).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/pictures", OUT / "pictures")
    (OUT.parent / "mkdocs.yml").write_text(config(list(texts)), encoding="utf-8")
    return len(texts)


if __name__ == "__main__":
    print(f"wrote {write()} pages")
