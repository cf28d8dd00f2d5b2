"""`ptokit cache`: the compiled code on disk."""

from __future__ import annotations

from ptokit.cli.files import print_text
from ptokit.cli.problems import FINE, Misuse, printable
from ptokit.cli.report import print_json
from ptokit.engine.llvm import store
from ptokit.finding import counted


def show_cache(as_json: bool) -> int:
    """Print the folder and the size of the cache, or why it is not used."""
    folder, size, refusal = store.folder(), store.size(), store.refusal()
    why = refusal or store.unwritable()
    if as_json:
        where = str(folder) if folder else None
        print_json("cache show", folder=where, entries=size.entries, bytes=size.bytes, refusal=why or None)
    else:
        held = f"not used: {refusal}" if refusal else f"{counted(size.entries, 'file')}, {counted(size.bytes, 'byte')}"
        added = f"; nothing can be added: {why}" if why and not refusal else ""
        print_text(printable(f"{folder or 'the cache'}: {held}{added}\n"))
    return FINE


def clear_cache(as_json: bool) -> int:
    """Remove all entries of the cache."""
    if refusal := store.refusal():
        raise Misuse(f"{store.folder() or 'the cache'} is not used: {refusal}")
    removed = store.clear()
    if as_json:
        print_json("cache clear", removed=removed)
    else:
        print_text(f"{counted(removed, 'file')} removed\n")
    return FINE
