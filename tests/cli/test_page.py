"""docs/cli.md is true: its commands print what it shows, and its tables of JSON name every field."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cli.shell import ENVIRONMENT, ptokit_

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/cli.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECONDS = re.compile(r"\d+\.\d{3} s$|(?<=\"seconds\": )[\d.e-]+", re.MULTILINE)
FILES = re.compile(r"```(?:mlir|python|cpp)\n(?P<text>(?://|#) (?P<name>\w+\.\w+)\n.*?)```", re.DOTALL)
SESSIONS = re.compile(r"```console\n(?P<text>.*?)```", re.DOTALL)
TABLE = re.compile(
    r"^(?P<title>`check`|`check FILE\.py`|`run`|A finding):\n\n\| field .*\n\|[-|]+\n(?P<rows>(?:\|.*\n)+)",
    re.MULTILINE,
)
PLAIN = re.compile(r"(?P<settings>(?:[A-Z_]+=\w+ )*)ptokit (?P<words>[^|<>$;&]*)")
"""A command that means the same without a shell."""
TYPES = {"number": (int, float), "string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


@pytest.fixture(autouse=True)
def programs(folder: Path) -> None:
    """The files of the page, and a `ptokit` for the shell."""
    for file in FILES.finditer(TEXT):
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    write_commands(folder)


def write_commands(folder: Path) -> None:
    """A `ptokit` and a `python` for the shell."""
    (folder / "bin").mkdir()
    for name, words in (("ptokit", "-m ptokit"), ("python", "")):
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{forked.python()}" {words} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


def shell(commands: list[str], folder: Path) -> list[str]:
    """What each command of a session prints, errors included. Those with nothing for a shell run in this process."""
    settings = {**ENVIRONMENT, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    printed, status = list[str](), 0
    for command in commands:
        if found := PLAIN.fullmatch(command):
            with pytest.MonkeyPatch.context() as patch:
                for setting in found["settings"].split():
                    patch.setenv(*setting.split("="))
                done = ptokit_(*shlex.split(found["words"]))
            text, status = done.output, done.exit_code
        else:
            script = ["/bin/sh", "-c", f"(exit {status})\n{command}"]
            made = subprocess.run(script, stdout=-1, stderr=subprocess.STDOUT, env=settings, text=True, check=False)
            text, status = made.stdout, made.returncode
        printed.append(text)
    return printed


def session(text: str) -> tuple[list[str], list[str]]:
    """The commands of a console block, and what is shown below each."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return parts[1::2], parts[2::2]


def test_commands_print_what_the_page_shows(folder: Path) -> None:
    blocks = [session(block["text"]) for block in SESSIONS.finditer(TEXT)]
    printed = iter(shell([command for commands, _ in blocks for command in commands], folder))
    made = [(commands, [_plain(next(printed)) for _ in commands]) for commands, _ in blocks]
    if os.environ.get("PTOKIT_UPDATE_GOLDEN"):
        return _rewrite(made)
    assert made == [(commands, [_plain(text) for text in shown]) for commands, shown in blocks]


def _plain(text: str) -> str:
    """Output without its times. Versions of click write arguments that repeat with or without dots."""
    return SECONDS.sub("...", text).replace("[-- ARG]...", "[-- ARG]")


def _rewrite(made: list[tuple[list[str], list[str]]]) -> None:
    """Put into the page what its commands print now."""
    blocks = iter(made)

    def block(_: re.Match[str]) -> str:
        commands, printed = next(blocks)
        lines = (f"$ {command}\n{text}" for command, text in zip(commands, printed, strict=True))
        return f"```console\n{''.join(lines)}```"

    PAGE.write_text(SESSIONS.sub(block, TEXT).replace(", native, ...", ", native, 0.001 s"), encoding="utf-8")


# --- JSON ------------------------------------------------------------------------------------------------------


def fields(title: str) -> dict[str, tuple[type, ...]]:
    """The fields of a table and their types."""
    table = next(table for table in TABLE.finditer(TEXT) if table["title"] == title)
    rows = (row.split("|")[1:3] for row in table["rows"].splitlines())
    return {name.strip().strip("`"): tuple(_types(kinds)) for name, kinds in rows}


def _types(kinds: str) -> Iterator[type]:
    for kind in kinds.strip().split(" or "):
        found = TYPES[kind]
        yield from found if isinstance(found, tuple) else (found,)


def assert_as_documented(data: dict[str, Any], title: str) -> None:
    own = {name: types for name, types in fields(title).items() if "." not in name}
    assert [*data] == [*own]
    for name, types in own.items():
        assert type(data[name]) in types, name


def assert_findings(findings: list[dict[str, Any]]) -> None:
    for finding in findings:
        assert_as_documented(finding, "A finding")
        assert finding["level"] in ("error", "hazard", "note")
        assert finding["where"] is None or [*finding["where"]] == ["file", "line", "column"]


def printed(*words: str) -> dict[str, Any]:
    result = ptokit_(*words, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


SHAPES = ("--arg", "x=f32[40,12]", "--arg", "out=f32[40,12]")


@pytest.mark.parametrize("words", [("lookup.pto",), ("pairs.py:pairs", *SHAPES), ("broken.pto",)])
def test_json_of_check_is_as_documented(words: tuple[str, ...], folder: Path) -> None:
    (folder / "broken.pto").write_text("func.func @f( {", encoding="utf-8")
    report = printed("check", *words)
    assert_as_documented(report, "`check`")
    inner = [name.removeprefix("targets.*.") for name in fields("`check`") if name.startswith("targets.*.")]
    for target in report["targets"].values():
        assert [*target] == inner
        assert_findings(target["findings"])
        assert all([*memory] == ["used", "size"] for memory in target["memory"].values())
    assert (report["error"] is None) == bool(report["targets"])


def test_json_of_check_of_a_file_is_as_documented() -> None:
    report = printed("check", "train.py")
    assert_as_documented(report, "`check FILE.py`")
    inner = [name.removeprefix("kernels.*.") for name in fields("`check FILE.py`") if name.startswith("kernels.*.")]
    own = [name.removeprefix("targets.*.") for name in fields("`check`") if name.startswith("targets.*.")]
    for kernel in report["kernels"]:
        assert [*kernel] == inner
        for target in kernel["targets"].values():
            assert [*target] == [*own, "launches"]
            assert [finding.pop("launches") for finding in target["findings"]] == [3]
            assert_findings(target["findings"])


@pytest.mark.parametrize(
    ("file", "tokens"), [("lookup.pto", "wild"), ("lookup.pto", "tokens"), ("broken.pto", "tokens")]
)
def test_json_of_run_is_as_documented(file: str, tokens: str, folder: Path) -> None:
    (folder / "broken.pto").write_text("func.func @f( {", encoding="utf-8")
    subprocess.run([forked.python(), "arrays.py"], check=True)
    arguments = ("--arg", "table=table.npy", "--arg", f"tokens={tokens}.npy", "--arg", "n=32", "--grid", "2")
    report = printed("run", file, *arguments, "--out", "out=y.npy")
    assert_as_documented(report, "`run`")
    assert_findings(report["findings"])
    assert report["ok"] == ((file, tokens) == ("lookup.pto", "tokens")) == (folder / "y.npy").exists()
    if report["error"]:
        assert [*report["error"]] == ["message", "fix", "where"]


COMMANDS = (
    *("check", "run", "fmt", "convert", "show", "report", "trace", "sweep", "explain", "targets"),
    *("view layout", "view tile", "view gather"),
)


def test_every_option_stands_on_the_page() -> None:
    for command in COMMANDS:
        section = TEXT[TEXT.index(f"\n## {command.split()[0]}\n") :].split("\n## ")[1]
        for option in {*re.findall(r"--[a-z-]+", ptokit_(*command.split(), "--help").stdout)} - {"--help", "--output"}:
            assert option in section, f"{command} {option}"
