"""The user's cache directory, or the folder that `PTOKIT_CACHE` says."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

VARIABLE = "PTOKIT_CACHE"
"""The environment variable that names another folder, or switches the cache off."""
OFF = ("", "0", "off")


def base() -> Path | None:
    """The folder; None where the cache is switched off or the user has no place for it."""
    asked = os.environ.get(VARIABLE)
    if asked is None:
        return _user_folder()
    return None if asked.strip().lower() in OFF else Path(os.path.expanduser(asked))


def _user_folder() -> Path | None:
    variable, default = {
        "win32": ("LOCALAPPDATA", "~/AppData/Local"),
        "darwin": ("", "~/Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    for place in (os.environ.get(variable, ""), os.path.expanduser(default)):
        if os.path.isabs(place):
            return Path(place, "ptokit")
    return None


def distrust(about: os.stat_result) -> str:
    """Why code from a file or folder could be somebody else's; empty when it could not."""
    if sys.platform == "win32":
        return ""  # the folder is in the user's profile, and modes say nothing
    if about.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""
