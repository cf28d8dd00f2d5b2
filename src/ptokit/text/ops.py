"""The ops that are no instructions and have a shape of their own: one row for each.

A shape is written in a small language, one token for each piece:

    %x  %x*         an operand; a list of operands
    %x:             operands with their types behind a colon, or nothing
    ^x  ~x          the type of an operand; the same where `!pto.ptr` is left away
    R   ~R          the type of the result; stripped
    T:x,y  T:x,y=R  one type for operands; also for the result
    #x:kind         an attribute without its name, `<KW>`; `#x:kind!` in full; kinds `int` and `ints` are plain numbers
    #x|%x           a number or an operand
    @x|%x           an address, `@tile(0x1000)`, or an operand
    {}  {!}         the remaining attributes; the same with plain numbers and stripped keywords
    {a,b:kind}      the same, with those that have a meaning in programs
    (? ... ?)       a part that may be missing, known by its first piece
    >x0             a block to go to, with its operands
    region  keyed   a body; `key = %x : T` in parentheses
    flags           flags of arithmetic
    call            the types of all operands and results
    assigned        the types of an assignment
    anything else   itself
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ptokit.text.spelling import ASSIGN

_PTO = {
    "addptr": "%ptr , %offset {} : ~ptr -> ~R",
    "make_tensor_view": "%ptr , shape = [ %shape* ] , strides = [ %strides* ] {layout:layout} : R",
    "partition_view": "%view , offsets = [ %offsets* ] , sizes = [ %sizes* ] {} : ^view -> R",
    "get_tensor_view_dim": "%view , %dim {} : ^view -> R",
    "alloc_tile": "(? addr = %addr ?) (? valid_row = %valid_row ?) (? valid_col = %valid_col ?) {} : R",
    ASSIGN.op: ASSIGN.text.shape,
    "declare_tile": "{} -> R",
    "set_validshape": "%tile , %row , %col {} : ^tile",
    "subset": "%tile [ %offsets* ] sizes #sizes:ints {} : ^tile",
    "treshape bitcast": "%tile {} : ^tile -> R",
    "bind_tile": "%source (? , %row , %col ?) {} : ^source -> R",
    "pointer_cast": "( %addrs* ) (? [ %valid* ] ?) {} : R",
    "load_scalar load": "%ptr [ %index ] {} : ^ptr -> R",
    "store_scalar store": "%value , %ptr [ %index ] {} : ^ptr , ^value",
    "set_flag wait_flag": "[ #src_pipe:pipe , #dst_pipe:pipe , #event_id:event ] {}",
    "set_flag_dyn wait_flag_dyn": "[ #src_pipe:pipe , #dst_pipe:pipe , %event_id ] {}",
    "record_event wait_event": "[ #src_op:pipe_event_type! , #dst_op:pipe_event_type! , #event_id:event ] {}",
    "barrier": "#pipe:pipe {}",
    "barrier_sync": "[ #op_type:pipe_event_type ] {}",
    "sync.set sync.wait": "#pipe:pipe , #event_id|%event_id {ffts_mode}",
    "set_ffts": "%ffts {} : ^ffts",
    "get_buf rls_buf": "[ #op_type:pipe_event_type! , #buf_id:int (? , #mode:int ?) ] {}",
    "get_block_idx get_block_num get_subblock_idx get_subblock_num trap": "{}",
    "declare_eventid_array": "{} -> R",
    "eventid_array_set": "%array [ %index ] , %value {} : ^array",
    "eventid_array_get": "%array [ %index ] {} : ^array",
    "section.cube section.vector": "region",
    "tpush_to_aiv tpush_to_aic": "( %tile : ^tile ) {!}",
    "tpop_from_aic tpop_from_aiv": "(? ( %valid* ) ?) {!} -> R",
    "tfree_from_aic tfree_from_aiv": "{!}",
    "reserve_buffer import_reserved_buffer": "{!name,size,location,auto,base} (? -> R ?)",
    "aic_initialize_pipe aiv_initialize_pipe": "{!} keyed",
}
ARITHMETIC = {
    "addi subi muli shli divsi divui ceildivsi ceildivui floordivsi remsi remui shrsi shrui andi ori xori maxsi maxui"
    " minsi minui addf subf mulf divf remf maximumf minimumf maxnumf minnumf": "%a , %b flags {} : T:a,b=R",
    "negf": "%a flags {} : T:a=R",
    "extsi extui extf trunci truncf sitofp uitofp fptosi fptoui index_cast index_castui bitcast":
        "%a flags {} : ^a to R",
    "cmpi": "#predicate:words:eq/ne/slt/sle/sgt/sge/ult/ule/ugt/uge , %a , %b {} : T:a,b=i1",
    "cmpf": "#predicate:words:false/oeq/ogt/oge/olt/ole/one/ord/ueq/ugt/uge/ult/ule/une/uno/true , %a , %b flags {} :"
        " T:a,b=i1",
    "select": "%c , %a , %b {} : T:a,b=R",
}  # fmt: skip
BUILTIN_SHAPES = {
    **{f"arith.{name}": text for names, text in ARITHMETIC.items() for name in names.split()},
    "func.return": "{} %args:",
    "func.call": "#callee:symbol ( %args* ) {} : call",
    "scf.yield": "{} %args:",
    "scf.condition": "( %condition ) {} %args:",
    "scf.reduce.return": "%args: {}",
    "cf.br": ">to0 {}",
    "cf.cond_br": "%condition , >to0 , >to1 {}",
    "memref.load": "%ref [ %indices* ] {} : ^ref",
    "memref.store": "%value , %ref [ %indices* ] {} : ^ref",
    "memref.alloc": "( %dims* ) (? [ %symbols* ] ?) {} : R",
    "memref.alloca": "( %dims* ) (? [ %symbols* ] ?) {} : R",
    "memref.dealloc": "%ref {} : ^ref",
    "memref.copy": "%source , %target {} : ^source to ^target",
    "memref.dim": "%ref , %index {} : ^ref",
    "memref.get_global": "#name:symbol {} : R",
}
"""The shapes of the ops of MLIR."""
PTO_SHAPES: Mapping[str, str] = {name: text for names, text in _PTO.items() for name in names.split()}
"""The shapes of the ops of `pto`, by their names without it."""
RESULT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num"), "i64"),
    "eventid_array_get": "index",
}
"""Types of results of `pto` that the text does not say."""

_ATTRIBUTE = re.compile(r"(?:[#@]|(?<=[{!,]))(\w+)(?::(\w+))?")
_KEYED = re.compile(r"(\w+) = %\1 \?\)")


@lru_cache(maxsize=1024)
def attribute_kinds(name: str) -> Mapping[str, str]:
    """The attributes that the shape of an op names, and their kinds."""
    return dict(_ATTRIBUTE.findall(PTO_SHAPES.get(name) or BUILTIN_SHAPES.get(name, "")))


@lru_cache(maxsize=1024)
def keyed_operands(name: str) -> tuple[str, ...]:
    """The operands of an op of `pto` that are written behind their names, like attributes."""
    return tuple(_KEYED.findall(PTO_SHAPES.get(name, "")))
