"""Findings on calls and programs: their data, their text, and the errors and warnings that carry them."""
# ruff: noqa: F403

from ptokit.finding.conflict import *
from ptokit.finding.finding import *
from ptokit.finding.fix import *
from ptokit.finding.hints import *
from ptokit.finding.several import *
