"""`check --prove`: what holds for every launch of a program."""

from __future__ import annotations

from typing import Any

from ptokit.cli.files import print_text
from ptokit.cli.problems import FINE, FOUND, UNMODELLED, Misuse, printable
from ptokit.cli.programs import arguments_of, each_entry, library_call
from ptokit.cli.report import findings_data, print_json, show_findings
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import find
from ptokit.lang.prove import SECONDS, Proof, TargetProof, prove
from ptokit.progress import task

STATUS = {"proved": FINE, "refuted": FOUND, "unproved": UNMODELLED}


def prove_program(request: ProgramRequest, as_json: bool) -> int:
    """Print what is proved of a program, or of each of its entries."""
    seconds = _seconds(request)
    proofs = [_prove(each, seconds, as_json) for each in each_entry(request)]
    if as_json:
        data = [_data(proof) for proof in proofs]
        print_json("prove", **(data[0] if len(data) == 1 else {"entries": data}))
    statuses = {STATUS[proof.verdict] for proof in proofs}
    return FOUND if FOUND in statuses else max(statuses, default=FINE)


def _seconds(request: ProgramRequest) -> float:
    """The time for each target: `--limit seconds=10`."""
    for word in request.cxx.limit or ():
        name, _, value = word.partition("=")
        if name == "seconds":
            try:
                return float(value)
            except ValueError:
                raise Misuse(f"--limit takes seconds=10; found {word}") from None
    return SECONDS


def _prove(request: ProgramRequest, seconds: float, as_json: bool) -> Proof:
    kernel = find(request)
    args, keywords = arguments_of(kernel, request)
    options = {name: value for name, value in request.options.items() if name not in ("target", "launch")}
    with task(f"prove {kernel.name}:"), library_call():
        proof = prove(kernel, *args, target=request.target or ALL, seconds=seconds, **options, **keywords)
    if not as_json:
        for target in proof.targets.values():
            show_findings(target.findings)
            print_text(printable("\n".join(_lines(proof, target)) + "\n"))
    return proof


def _lines(proof: Proof, target: TargetProof) -> list[str]:
    covers = f" for {', '.join(target.covers)}" if target.covers and target.verdict != "refuted" else ""
    shown = f" by a launch with {target.counterexample}" if target.counterexample else ""
    return [
        f"{proof.kernel} on {target.target}: {target.verdict}{covers}{shown}",
        *(f"  not judged: {each}" for each in target.excludes),
    ]


def _data(proof: Proof) -> dict[str, Any]:
    """A proof as plain data."""
    return {
        "kernel": proof.kernel,
        "targets": {
            name: {
                "verdict": each.verdict,
                "covers": each.covers,
                "excludes": each.excludes,
                "counterexample": each.counterexample and vars(each.counterexample),
                "findings": findings_data(each.findings),
                "seconds": each.seconds,
            }
            for name, each in proof.targets.items()
        },
    }
