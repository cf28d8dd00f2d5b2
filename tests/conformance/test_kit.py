"""The conformance kit: what its cases expect, and what it says of implementations that are wrong, hostile or slow."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit import spec
from ptokit.conformance import export as exports
from ptokit.conformance.cases import programs
from ptokit.conformance.export import INDEX, PROGRAMS, Unwritable, export, read_index
from ptokit.conformance.judge import CaseVerdict, Judge, by_clause
from tests import forked
from tests.cli.shell import process

CASES = "gather_row_padded"
OTHERS = """
import json, os, shutil, sys, time
from pathlib import Path
import numpy as np

case = json.loads(Path(sys.argv[1]).read_text())
out, how = Path(sys.argv[2]), sys.argv[3]
name = case["id"].partition("@")[0]
data = np.load(Path(case["program"]).with_name("data.npz"))
(array,) = [each["name"] for each in case["arrays"] if each["write"]]
file, right = out / f"{array}.npy", data[f"{case['target']}/{array}"][int(name.rpartition(".")[2])]
"""
"""The beginning of an implementation that knows the answers."""
ANSWERS = {
    "right": "np.save(file, right)",
    "two dims": "np.save(file, right.reshape(1, -1))",
    "a refusal": "sys.exit(3)",
    "a mark": "(out / 'refused').touch()",
    "no support": "sys.exit(4)",
    "one bit": "right[0] ^= 1; np.save(file, right)",
    "nothing": "",
    "a failure": "print('what went wrong', file=sys.stderr); sys.exit(1)",
    "a signal": "os.abort()",
    "no end": "np.save(file, right); time.sleep(60)",
    "too short": "np.save(file, right[:-1])",
    "other type": "np.save(file, right.astype('float64'))",
    "other kind": "np.save(file, right.view('f2'))",
    "objects": "np.save(file, np.array([print] * right.size, object), allow_pickle=True)",
    "cut off": "np.save(file, right); os.truncate(file, file.stat().st_size - 1)",
    "no array": "file.write_bytes(b'text')",
    "long header": "file.write_bytes(b'\\x93NUMPY\\x02\\x00' + b'\\xff\\xff\\xff\\x7f' + b' ' * 100)",
    "huge shape": "file.write_bytes(np.lib.format.magic(1, 0) + b'\\x76\\x00' + "
    "b\"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,), }\".ljust(117) + b'\\n')",
    "fields": "np.save(file, right.view([('a', 'u1'), ('b', 'u1')]))",
    "large": "file.write_bytes(bytes(1 << 20))",
    "a pipe": "os.mkfifo(file)",
    "a folder": "file.mkdir()",
    "a link": "os.symlink('/dev/zero', file)",
}
VERDICTS = {"right": "passed", "two dims": "passed", "a refusal": "refused", "a mark": "refused",
            "no support": "unsupported"}  # fmt: skip
"""Those of the others are failures."""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few cases."""
    folder = tmp_path_factory.mktemp("kit") / "cases"
    export(folder, ("cpu", "a5"), CASES)
    return folder


def command(folder: Path, code: str) -> str:
    """An implementation that knows the answers, and what it does with them."""
    script = folder / "other.py"
    script.write_text(OTHERS + code, encoding="utf-8")
    return f"{shlex.quote(forked.python())} {shlex.quote(str(script))} {{case}} {{out}} -"


def judged(kit: Path, tmp_path: Path, code: str, **how: Any) -> list[CaseVerdict]:
    return Judge(kit, command(tmp_path, code), **how).judge(["cpu"], ["MG-OOB-05"])


# --- cases


def test_expected_bytes_are_those_of_the_formula(kit: Path) -> None:
    """dst[r, j] = table[remap(idx[r]), j], with indices as uint32 (MG-SEM-02, MG-OOB-05 to 08)."""
    index, seen = read_index(kit), Counter[str]()
    for case in index["cases"]:
        entry = next(entry for entry in index["programs"] if entry["name"] == case["program"])
        data = np.load(kit / entry["folder"] / "data.npz")
        width = entry["arrays"]["table"]["elements"] // 7
        table = data["table"][case["set"]].reshape(7, width)
        policy = next(word for word in ("undefined", "clamp", "wrap", "zero") if word in case["program"])
        for r, found in enumerate(data["indices"][case["set"]].astype("u8")):
            row = {"clamp": min(found, 6), "wrap": found % 7}.get(policy, found)
            expected = table[int(row)] if row < 7 else np.zeros(width)
            out = data[f"{entry['expected'][case['target']]}/out"][case["set"]].reshape(3, width)
            assert (out[r] == expected).all(), case["id"]
            seen[policy] += found >= 7
    assert min(seen[policy] for policy in ("clamp", "wrap", "zero")) > 20 and not seen["undefined"]


def test_a_scatter_to_one_place_twice_permits_both_writers(tmp_path: Path) -> None:
    """On A5 without a conflict policy (MS-CONF-02, MS-CONF-03); on the CPU the last one stays (MS-CONF-01)."""
    kit = tmp_path / "cases"
    index = export(kit, ("cpu", "a5"), "scatter_row_plain_undefined_f32")
    data = np.load(kit / index["programs"][0]["folder"] / "data.npz")
    (case,) = [case for case in index["cases"] if case["target"] == "a5" and "MS-CONF-02" in case["clauses"]]
    indices, source = data["indices"][case["set"]], data["source"][case["set"]].reshape(4, 8)
    assert indices[0] == indices[1] and len({*indices}) == 3
    for writer, key in ((1, "cpu/table"), (1, "a5/table"), (0, "a5/table/or")):
        assert (data[key][case["set"]].reshape(7, 8)[indices[0]] == source[writer]).all()
    swap = "np.save(file, data['a5/table/or'][int(name.rpartition('.')[2])])"
    found = Judge(kit, command(tmp_path, swap)).judge(["a5"], ["MS-CONF"])
    assert [each.verdict for each in found] == ["passed"]
    found = Judge(kit, command(tmp_path, "right[right == right] = 0; np.save(file, right)")).judge(["a5"], ["MS-CONF"])
    assert [each.verdict for each in found] == ["failed"]


def test_unspecified_elements_are_not_compared(tmp_path: Path) -> None:
    """The tail of an odd row on A2/A3 (A-67); what lies behind its 32-byte block keeps its content (MG-SEM-05)."""
    kit = tmp_path / "cases"
    export(kit, ("a2a3",), "keep_row_zero_f32")
    for column, verdict in ((9, "passed"), (15, "passed"), (8, "failed")):
        code = f"right[{column}] ^= 1; np.save(file, right)"
        assert [each.verdict for each in Judge(kit, command(tmp_path, code)).judge()] == [verdict], column
    below = "right[3 * 16 + 9] ^= 1; np.save(file, right)"
    assert [each.verdict for each in Judge(kit, command(tmp_path, below)).judge()] == ["failed"]


def test_a_refusal_is_expected_of_what_a_target_refuses(tmp_path: Path) -> None:
    kit = tmp_path / "cases"
    index = export(kit, (), "gather_row_short_index")
    rules = {"cpu": "MG-MODE-06", "cpu@aicore": "MG-MODE-06", "a2a3": "MG-MODE-03", "a5": "MG-MODE-05"}
    rules |= {"a2a3@2026.08": "MG-MODE-03", "a5@2026.08": "MG-MODE-05"}
    for case in index["cases"]:
        assert (case["expect"]["kind"], case["expect"]["level"]) == ("refusal", "error")
        assert rules.pop(case["target"]) in case["clauses"] == case["expect"]["clauses"]
    assert not rules
    assert all((kit / PROGRAMS / case["program"] / f"{case['target']}.cpp").is_file() for case in index["cases"])
    (found,) = Judge(kit, "true {case} {out}").judge(["a5"])
    assert (found.verdict, found.reason) == ("failed", "it ran, and must be refused by MG-MODE-05")
    refusing = Judge(kit, f"{sys.executable} -c 'exit(3)' {{case}} {{out}}").judge()
    assert [each.verdict for each in refusing] == ["passed"] * 6


def test_there_are_enough_cases_and_their_clauses_exist() -> None:
    names, clauses, sets = set[str](), set[str](), 0
    for program in programs():
        assert program.name not in names
        names.add(program.name)
        clauses |= {*program.clauses.split(), *" ".join(each.clauses for each in program.sets).split()}
        sets += len(program.sets)
    assert sets > 5000
    assert clauses <= spec.clauses().keys()


def test_an_export_is_the_same_every_time(kit: Path, tmp_path: Path) -> None:
    export(tmp_path / "cases", ("cpu", "a5"), CASES)
    files = {file.relative_to(kit) for file in kit.rglob("*") if file.is_file()}
    assert files == {file.relative_to(tmp_path / "cases") for file in (tmp_path / "cases").rglob("*") if file.is_file()}
    assert all((kit / file).read_bytes() == (tmp_path / "cases" / file).read_bytes() for file in files)


# --- folders


def test_only_an_older_export_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    export(folder, ("cpu",), "pad_zero_i8")
    export(folder, ("cpu",), "pad_zero_f32")
    assert [file.name for file in (folder / PROGRAMS).iterdir()] == ["pad_zero_f32"]
    (folder / "mine").touch()
    with pytest.raises(Unwritable, match="other files than an export"):
        export(folder, ("cpu",), "pad_zero_i8")
    assert (folder / "mine").exists() and [*tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "other"}', "[" * 100_000, '{"kind": "ptokit conformance"}'])
def test_an_index_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / INDEX).write_text(content)
    (tmp_path / PROGRAMS).mkdir()
    with pytest.raises(ValueError, match=r"no export|nested|Expecting"):
        read_index(tmp_path)
    with pytest.raises(Unwritable):
        export(tmp_path, ("cpu",), "pad_zero_i8")


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports, "_write", failing)
    with pytest.raises(OSError, match="No space"):
        export(tmp_path / "cases", ("cpu",), "pad_zero_i8")
    assert not [*tmp_path.iterdir()]


# --- verdicts


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_judged(kit: Path, tmp_path: Path, name: str) -> None:
    only = {"cases": [json.loads((kit / INDEX).read_text())["cases"][8]]}  # of 16-bit integers
    small = tmp_path / "cases"
    small.mkdir()
    (small / PROGRAMS).symlink_to(kit / PROGRAMS)
    (small / INDEX).write_text(json.dumps(json.loads((kit / INDEX).read_text()) | only))
    (found,) = Judge(small, command(tmp_path, ANSWERS[name]), seconds=2 if name == "no end" else 30).judge()
    assert found.verdict == VERDICTS.get(name, "failed")
    assert bool(found.reason) == (found.verdict in ("failed", "refused"))
    if name == "a failure":
        assert found.reason == "exit status 1: what went wrong"


def test_a_batch_that_fails_is_run_again_case_by_case(kit: Path, tmp_path: Path) -> None:
    """An implementation for single cases only fails at a list, and passes."""
    found = judged(kit, tmp_path, ANSWERS["right"], batch=5, jobs=2)
    assert len(found) > 5 and {each.verdict for each in found} == {"passed"}


@pytest.mark.parametrize("text", ["./simulator", "./simulator {case}", "./simulator {out}", "'{case} {out}"])
def test_a_command_that_lacks_something_is_refused(kit: Path, text: str) -> None:
    with pytest.raises(ValueError, match="the command"):
        Judge(kit, text)


def test_no_shell_reads_the_command(kit: Path, tmp_path: Path) -> None:
    Judge(kit, f"true {{case}} {{out}} ; touch {tmp_path}/made").judge(["cpu"], ["MG-OOB-05"])
    assert not (tmp_path / "made").exists()


# --- through the command line


def test_ptokit_passes_on_both_engines_and_a_wrong_policy_is_named(kit: Path, tmp_path: Path) -> None:
    """An implementation that clamps where it must wrap fails at the clause of Wrap, and at no other policy's."""
    for engine in ("reference", "native"):
        ours = f"{forked.python()} -m ptokit conformance answer {{case}} {{out}} --engine {engine}"
        done = process("conformance", "run", str(kit), "--command", ours, "--batch", "500", "--json", cwd=tmp_path)
        told = json.loads(done.stdout)
        assert done.returncode == 0 and {*told["totals"]} == {"passed"} and told["totals"]["passed"] > 50, done.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import json, subprocess, sys\nfrom pathlib import Path\n"
        "pairs = json.loads(Path(sys.argv[1]).read_text())['cases']\n"
        "for pair in pairs:\n"
        "    file = Path(pair['case']); case = json.loads(file.read_text())\n"
        "    text = Path(case['program']).read_text().replace('gather_oob wrap', 'gather_oob clamp')\n"
        "    Path(file.parent, 'wrong.pto').write_text(text); case['program'] = str(file.parent / 'wrong.pto')\n"
        "    file.write_text(json.dumps(case))\n"
        "sys.exit(subprocess.call([sys.argv[3], '-m', 'ptokit', 'conformance', 'answer', *sys.argv[1:3]]))\n",
        encoding="utf-8",
    )
    words = (
        "conformance",
        "run",
        str(kit),
        "--command",
        f"{forked.python()} {wrong} {{case}} {{out}} {forked.python()}",
        "--batch",
        "500",
    )
    done = process(*words, "--target", "a5", cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.startswith("MG-OOB-0")}
    assert done.returncode == 1, done.stderr
    failed = {clause: int(row[1]) for clause, row in rows.items()}
    assert failed["MG-OOB-06"] > 0 and failed["MG-OOB-05"] == failed["MG-OOB-07"] == failed["MG-OOB-02"] == 0
    assert "gather_row_padded_wrap" in done.stdout and "must be" not in done.stdout


def test_misuse_has_a_status(kit: Path, tmp_path: Path) -> None:
    done = process("conformance", "run", str(tmp_path), "--command", "true {case} {out}", cwd=tmp_path)
    assert done.returncode == 2 and "cannot read" in done.stderr
    done = process("conformance", "run", str(kit), "--command", "true", cwd=tmp_path)
    assert done.returncode == 2 and "{case} and {out}" in done.stderr
    done = process("conformance", "export", str(tmp_path / "a" / "b"), cwd=tmp_path)
    assert done.returncode == 2 and "there is no folder" in done.stderr
    done = process("conformance", "run", str(kit), "--command", "./absent {case} {out}", cwd=tmp_path)
    assert done.returncode == 2 and "'./absent' is no program that can be started" in done.stderr
    done = process("conformance", "export", str(tmp_path / "new"), "--program", "absent", cwd=tmp_path)
    assert done.returncode == 2 and "no program has a name that begins with 'absent'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_table_counts_every_clause_of_a_case() -> None:
    found = [CaseVerdict("a", ("A", "B"), "passed"), CaseVerdict("b", ("B",), "failed", "x")]
    assert by_clause(found) == {"A": Counter(passed=1), "B": Counter(passed=1, failed=1)}
