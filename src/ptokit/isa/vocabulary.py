"""The words that definitions of instructions are written in: types, operands, rules, moves, kernels, spellings.

A definition begins with `from ptokit.isa.vocabulary import *`. Each word is explained where it is defined.
"""
# ruff: noqa: F403

from ptokit.finding.fix import *
from ptokit.isa.common import *
from ptokit.isa.dtype import *
from ptokit.isa.fixes import *
from ptokit.isa.instruction import *
from ptokit.isa.kernel import *
from ptokit.isa.layout import *
from ptokit.isa.move import *
from ptokit.isa.operand import *
from ptokit.isa.policy import *
from ptokit.isa.spelling import *
from ptokit.isa.table import *
from ptokit.isa.unknown import *
