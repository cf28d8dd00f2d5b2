"""The targets, as data. A name may have a revision after `@`."""
# ruff: noqa: F403

from ptokit.isa.kernel import LaunchShape as LaunchShape
from ptokit.target.profile import *
from ptokit.target.registry import *
