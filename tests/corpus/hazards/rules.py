"""The clauses and decisions that findings of each hazard name, by target, as the documents give them."""

from __future__ import annotations

BOTH = ("a2a3", "a5")
FAMILIES = ("cpu", *BOTH)


def on(rules: str, *targets: str) -> dict[str, frozenset[str]]:
    """The same rules on several targets."""
    return dict.fromkeys(targets, frozenset(rules.split()))


RULES: dict[str, dict[str, frozenset[str]]] = {
    "": on("CO-SEM-02 KN-13 KN-16", *BOTH),
    "H-01": on("MG-HAZ-01 CO-ALIGN-01", "a2a3") | on("CO-ALIGN-01", "a5"),
    "H-02": on("MG-LAY-15", "a5"),
    "H-03": on("MG-SHAPE-05", "a5"),
    "H-04": on("MG-HAZ-08", "cpu") | on("A-09", "a5"),
    "H-05": on("MG-SHAPE-03", "cpu") | on("MG-HAZ-09", "a5"),
    "H-06": on("A-10", *FAMILIES),
    "H-07": on("A-57", "cpu", "a2a3"),
    "H-08": on("MG-TYPE-05 MG-TYPE-06 MS-TYPE-05 MS-TYPE-06", *BOTH),
    "H-09": on("A-19 A-22 MG-LAY-06 MG-LAY-07 MG-MODE-03 MS-SHAPE-02", "a2a3")
    | on("A-19 A-22 MG-MODE-05 MS-SHAPE-02", "a5"),
    "H-10": on("MG-OOB-04", *FAMILIES),
    "H-11": on("MS-OOB-06", "cpu") | on("A-18", "a2a3") | on("MS-OOB-02", "a5"),
    "H-12": on("TS-HAZ-01 TS-HAZ-03", *FAMILIES),
    "H-13": on("MG-HAZ-12 A-12", *FAMILIES),
    "H-14": on("MS-CONF-02", *BOTH),
    "H-15": on("MS-CONF-02", "a2a3") | on("MS-HAZ-02", "a5"),
    "H-16": on("MS-CONF-04", *BOTH),
    "H-17": on("TS-CONF-01", *FAMILIES),
    "H-18": on("MS-HAZ-04", "a5"),
    "H-19": on("A-17", "cpu"),
    "H-20": on("MG-BUDG-09", "a5"),
    "H-21": on("MG-BUDG-07 MG-BUDG-13", "a5"),
    "H-22": on("MG-BUDG-02", "a2a3"),
    "H-23": on("MG-SIMT-10", "a5"),
    "H-24": on("MG-SYNC-01", *BOTH),
    "H-25": on("MG-SYNC-15", "a5"),
    "H-26": on("MG-SYNC-13", "a5"),
    "H-27": on("A-22 A-52 MG-MODE-03 MG-SHAPE-07", "a2a3") | on("A-22 A-52 MG-MODE-05", "a5"),
    "H-28": on("MG-HAZ-11", "a5"),
    "H-29": on("A-03", "cpu", "a5"),
    "H-30": on("CO-HAZ-02", "a2a3"),
    "H-31": on("MG-L1-07", *BOTH),
    "H-32": on("A-65", *BOTH),
    "H-35": on("A-45", *BOTH),
    "H-36": on("CO-ALIGN-05", *FAMILIES),
    "H-37": on("A-47", "a2a3"),
    "H-38": on("A-38", *FAMILIES),
    "H-40": on("MG-MODE-06", "cpu") | on("MG-MODE-03", "a2a3") | on("MG-MODE-05", "a5"),
    "H-42": on("A-54", *BOTH),
    "H-43": on("A-13", "cpu") | on("A-13 CP-EXP-01", *BOTH),
    "H-44": on("MG-TYPE-02", "cpu") | on("A-20 MG-TYPE-03", "a2a3") | on("MS-TYPE-04", "a5"),
    "H-45": on("MG-MODE-04", *BOTH),
    "H-46": on("A-68", "a5"),
    "H-47": on("A-70", *BOTH),
    "H-48": on("A-70", *BOTH),
    "H-49": on("A-73", "a2a3"),
}
"""By hazard and target; several where cases of different instructions or operands have one number."""
