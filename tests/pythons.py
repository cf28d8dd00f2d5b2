"""Run the tests of the language, the single calls and the gallery on every supported Python of this machine.

The supported versions are those of pyproject.toml. A version that is not found is named; it is no failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    *("tests/lang", "tests/examples", "tests/compute", "tests/conformance/test_examples.py"),
    *("tests/test_docs.py", "tests/test_face.py", "tests/test_findings.py", "tests/test_ops.py"),
)
SAYS_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """The versions that pyproject.toml names, such as `3.11`."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)


def of_pyenv(version: str) -> list[str]:
    """The interpreters of a version that pyenv has installed, the newest first, whether they are activated or not."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [folder for folder in root.glob(f"versions/{version}.*") if re.fullmatch(r"[\d.]+", folder.name)]
    newest_first = sorted(found, key=lambda folder: int(folder.name.rpartition(".")[2]), reverse=True)
    return [str(folder / f"bin/python{version}") for folder in newest_first]


def interpreter(version: str) -> str | None:
    """An interpreter of a version that starts; one of the path comes first."""
    on_path = [shutil.which(name) for name in (f"python{version}", "python3", "python")]
    return next((path for path in (*on_path, *of_pyenv(version)) if path and says(path) == version), None)


def says(path: str) -> str:
    """The version of an interpreter; nothing if it does not start, as a shim of pyenv that is not activated."""
    try:
        done = subprocess.run([path, "-c", SAYS_VERSION], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def is_passed(version: str, python: str) -> bool:
    """Whether the tests pass, in a separate environment."""
    venv = f".venv-{version}"
    ready = ["make", "--no-print-directory", f"{venv}/.ready", f"PYTHON={python}", f"VENV={venv}"]
    tests = [f"{venv}/bin/pytest", "-q", "-n", "auto", "--dist", "worksteal", *TESTS]
    return all(subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in (ready, tests))


def main() -> int:
    """The exit status: 0 if the tests pass on every Python that was found, and one was."""
    outcomes: dict[str, str] = {}
    for version in supported():
        python = interpreter(version)
        print(f"== Python {version}: {python or 'missing'}", flush=True)
        if python:
            outcomes[version] = "passed" if is_passed(version, python) else "FAILED"
        else:
            outcomes[version] = "MISSING, not tested: neither on the path nor among the versions of pyenv"
    print("\n".join(["", *(f"Python {version}: {outcome}" for version, outcome in outcomes.items())]))
    return 0 if "FAILED" not in outcomes.values() and "passed" in outcomes.values() else 1


if __name__ == "__main__":
    sys.exit(main())
