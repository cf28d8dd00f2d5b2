"""All instructions by name. To add one is to add a file, and a line here."""

from ptokit.isa.columns import COLUMNS
from ptokit.isa.elementwise import ELEMENTWISE
from ptokit.isa.instruction import Instruction
from ptokit.isa.mgather import MGATHER
from ptokit.isa.mscatter import MSCATTER
from ptokit.isa.reduce import REDUCE
from ptokit.isa.select import SELECT
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.tload import TLOAD
from ptokit.isa.tmatmul import CUBE
from ptokit.isa.tmov import TMOV
from ptokit.isa.tscatter import TSCATTER
from ptokit.isa.tstore import TSTORE

MOVES = (MGATHER, MSCATTER, TSCATTER, TLOAD, TSTORE, TMOV, TASSIGN)
COMPUTE = (*ELEMENTWISE, *SELECT, *REDUCE, *COLUMNS, *CUBE)

INSTRUCTIONS: dict[str, Instruction] = {instruction.name: instruction for instruction in (*MOVES, *COMPUTE)}
