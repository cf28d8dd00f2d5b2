// Gathers and scatters, in global memory and inside UB.
#include "common.hpp"

constexpr int kTable = 100;
constexpr int kCount = 16;
constexpr int kWidth = 32;
using Index = VecTile<int32_t, 1, kCount>;
using Picked = VecTile<float, kCount, kWidth>;
using IndexGlobal = Matrix<int32_t, 1, kCount>;
using TableGlobal = Matrix<float, kTable, kWidth>;
using PickedGlobal = Matrix<float, kCount, kWidth>;

// --- Rows ----------------------------------------------------------------------------------------------------

__global__ AICORE void lookup(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup(float *out, float *table, int32_t *ids, void *stream)
{
    lookup<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_no_index_flag(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);  // fault: MTE2 to V is missing
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_no_index_flag(float *out, float *table, int32_t *ids, void *stream)
{
    lookup_no_index_flag<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_no_store_flag(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);
    TSTORE(outGlobal, rows);  // fault: V to MTE3 is missing; A2/A3 gathers hand over by themselves
}

extern "C" void launch_lookup_no_store_flag(float *out, float *table, int32_t *ids, void *stream)
{
    lookup_no_store_flag<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_loop(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids, int32_t rounds)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    TableGlobal tableGlobal(table);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    for (int i = 0; i < rounds; ++i) {
        IndexGlobal idsGlobal(ids + i * kCount);
        PickedGlobal outGlobal(out + i * kCount * kWidth);
        wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
        TLOAD(index, idsGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
        MGATHER<Coalesce::Row, GatherOOB::Zero>(rows, tableGlobal, index);
        set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        TSTORE(outGlobal, rows);
        set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

extern "C" void launch_lookup_loop(float *out, float *table, int32_t *ids, int32_t rounds, void *stream)
{
    lookup_loop<<<1, nullptr, stream>>>(out, table, ids, rounds);
}

__global__ AICORE void lookup_loop_no_reverse(
    __gm__ float *out, __gm__ float *table, __gm__ int32_t *ids, int32_t rounds)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    TableGlobal tableGlobal(table);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < rounds; ++i) {
        IndexGlobal idsGlobal(ids + i * kCount);
        PickedGlobal outGlobal(out + i * kCount * kWidth);
        wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
        TLOAD(index, idsGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        MGATHER<Coalesce::Row, GatherOOB::Zero>(rows, tableGlobal, index);  // fault: the store before may still read
        set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        TSTORE(outGlobal, rows);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
}

extern "C" void launch_lookup_loop_no_reverse(float *out, float *table, int32_t *ids, int32_t rounds, void *stream)
{
    lookup_loop_no_reverse<<<1, nullptr, stream>>>(out, table, ids, rounds);
}

__global__ AICORE void lookup_unchecked(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER<Coalesce::Row>(rows, tableGlobal, index);  // fault: an index of 100 or more
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_unchecked(float *out, float *table, int32_t *ids, void *stream)
{
    lookup_unchecked<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_index_overlaps(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x100);
    TASSIGN(rows, 0x120);  // fault: over the second half of the index
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_index_overlaps(float *out, float *table, int32_t *ids, void *stream)
{
    lookup_index_overlaps<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_no_index(__gm__ float *out, __gm__ float *table)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);  // fault: nothing has written the index
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_no_index(float *out, float *table, void *stream)
{
    lookup_no_index<<<1, nullptr, stream>>>(out, table);
}

__global__ AICORE void lookup_short_index(__gm__ float *out, __gm__ float *table, __gm__ int16_t *ids)
{
    VecTile<int16_t, 1, kCount> index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    Matrix<int16_t, 1, kCount> idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);  // fault: indices have 32 bits
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_short_index(float *out, float *table, int16_t *ids, void *stream)
{
    lookup_short_index<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void lookup_after_store(
    __gm__ float *out, __gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    Index index;
    Picked rows, fresh;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x1000);
    TASSIGN(fresh, 0x2000);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal outGlobal(out), xGlobal(x), firstRows(table);
    TLOAD(index, idsGlobal);
    TLOAD(fresh, xGlobal);
    pipe_barrier(PIPE_ALL);
    TSTORE(firstRows, fresh);
    pipe_barrier(PIPE_ALL);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, index);  // fault: the cache may hold the old rows
    pipe_barrier(PIPE_ALL);
    TSTORE(outGlobal, rows);
}

extern "C" void launch_lookup_after_store(float *out, float *table, float *x, int32_t *ids, void *stream)
{
    lookup_after_store<<<1, nullptr, stream>>>(out, table, x, ids);
}

// --- Elements ------------------------------------------------------------------------------------------------

using Cells = VecTile<float, 4, 16>;
using CellIndex = VecTile<int32_t, 4, 16>;

__global__ AICORE void pick_elements(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    CellIndex index;
    Cells cells;
    TASSIGN(index, 0x0);
    TASSIGN(cells, 0x100);
    Matrix<int32_t, 4, 16> idsGlobal(ids);
    Matrix<float, 1, 1000> tableGlobal(table);
    Matrix<float, 4, 16> outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER<Coalesce::Elem, GatherOOB::Wrap>(cells, tableGlobal, index);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, cells);
}

extern "C" void launch_pick_elements(float *out, float *table, int32_t *ids, void *stream)
{
    pick_elements<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void pick_elements_as_rows(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    CellIndex index;
    Cells cells;
    TASSIGN(index, 0x0);
    TASSIGN(cells, 0x100);
    Matrix<int32_t, 4, 16> idsGlobal(ids);
    Matrix<float, 60, 16> tableGlobal(table);
    Matrix<float, 4, 16> outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER(cells, tableGlobal, index);  // fault: without Coalesce::Elem it gathers rows
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, cells);
}

extern "C" void launch_pick_elements_as_rows(float *out, float *table, int32_t *ids, void *stream)
{
    pick_elements_as_rows<<<1, nullptr, stream>>>(out, table, ids);
}

__global__ AICORE void pick_elements_wrong_shape(__gm__ float *out, __gm__ float *table, __gm__ int32_t *ids)
{
    VecTile<int32_t, 4, 8> index;
    Cells cells;
    TASSIGN(index, 0x0);
    TASSIGN(cells, 0x100);
    Matrix<int32_t, 4, 8> idsGlobal(ids);
    Matrix<float, 1, 1000> tableGlobal(table);
    Matrix<float, 4, 16> outGlobal(out);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    MGATHER<Coalesce::Elem, GatherOOB::Clamp>(cells, tableGlobal, index);  // fault: 4 x 8 indices for 4 x 16 elements
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, cells);
}

extern "C" void launch_pick_elements_wrong_shape(float *out, float *table, int32_t *ids, void *stream)
{
    pick_elements_wrong_shape<<<1, nullptr, stream>>>(out, table, ids);
}

// --- Scatters to global memory -------------------------------------------------------------------------------

__global__ AICORE void put_rows(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal xGlobal(x);
    TLOAD(index, idsGlobal);
    TLOAD(rows, xGlobal);
    pipe_barrier(PIPE_ALL);
    MSCATTER<Coalesce::Row>(tableGlobal, rows, index);  // fault: an index that occurs twice or lies outside
}

extern "C" void launch_put_rows(float *table, float *x, int32_t *ids, void *stream)
{
    put_rows<<<1, nullptr, stream>>>(table, x, ids);
}

__global__ AICORE void add_rows(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    const int block = static_cast<int>(get_block_idx());
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids + block * kCount);
    TableGlobal tableGlobal(table);
    PickedGlobal xGlobal(x + block * kCount * kWidth);
    TLOAD(index, idsGlobal);
    TLOAD(rows, xGlobal);
    pipe_barrier(PIPE_ALL);
    MSCATTER<Coalesce::Row, ScatterAtomicOp::Add, ScatterOOB::Skip>(tableGlobal, rows, index);
    pipe_barrier(PIPE_ALL);
}

extern "C" void launch_add_rows(float *table, float *x, int32_t *ids, void *stream)
{
    add_rows<<<3, nullptr, stream>>>(table, x, ids);
}

__global__ AICORE void put_rows_of_blocks(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    const int block = static_cast<int>(get_block_idx());
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids + block * kCount);
    TableGlobal tableGlobal(table);
    PickedGlobal xGlobal(x + block * kCount * kWidth);
    TLOAD(index, idsGlobal);
    TLOAD(rows, xGlobal);
    pipe_barrier(PIPE_ALL);
    MSCATTER<Coalesce::Row, ScatterAtomicOp::None, ScatterOOB::Skip>(tableGlobal, rows, index);  // fault: blocks share rows
}

extern "C" void launch_put_rows_of_blocks(float *table, float *x, int32_t *ids, void *stream)
{
    put_rows_of_blocks<<<3, nullptr, stream>>>(table, x, ids);
}

__global__ AICORE void put_rows_no_flag(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    Index index;
    Picked rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    TableGlobal tableGlobal(table);
    PickedGlobal xGlobal(x);
    TLOAD(index, idsGlobal);
    TLOAD(rows, xGlobal);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
    MSCATTER<Coalesce::Row, ScatterAtomicOp::None, ScatterOOB::Skip>(tableGlobal, rows, index);  // fault: waits on MTE3, runs on V
}

extern "C" void launch_put_rows_no_flag(float *table, float *x, int32_t *ids, void *stream)
{
    put_rows_no_flag<<<1, nullptr, stream>>>(table, x, ids);
}

__global__ AICORE void maximum_of_halves(__gm__ half *table, __gm__ half *x, __gm__ int32_t *ids)
{
    Index index;
    VecTile<half, kCount, kWidth> rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    IndexGlobal idsGlobal(ids);
    Matrix<half, kTable, kWidth> tableGlobal(table);
    Matrix<half, kCount, kWidth> xGlobal(x);
    TLOAD(index, idsGlobal);
    TLOAD(rows, xGlobal);
    pipe_barrier(PIPE_ALL);
    MSCATTER<Coalesce::Row, ScatterAtomicOp::Max, ScatterOOB::Skip>(tableGlobal, rows, index);  // fault: Max takes no half
}

extern "C" void launch_maximum_of_halves(half *table, half *x, int32_t *ids, void *stream)
{
    maximum_of_halves<<<1, nullptr, stream>>>(table, x, ids);
}

// --- Inside UB -----------------------------------------------------------------------------------------------

using Wide = VecTile<float, 8, 64>;
using WideIndex = VecTile<int32_t, 8, 64>;

__global__ AICORE void permute(__gm__ float *out, __gm__ float *x, __gm__ int32_t *ids)
{
    Wide a, b;
    WideIndex index;
    VecTile<int32_t, 8, 64> tmp;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(index, 0x2000);
    TASSIGN(tmp, 0x3000);
    Matrix<float, 8, 64> xGlobal(x), outGlobal(out);
    Matrix<int32_t, 8, 64> idsGlobal(ids);
    TLOAD(a, xGlobal);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TGATHER(b, a, index, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_permute(float *out, float *x, int32_t *ids, void *stream)
{
    permute<<<1, nullptr, stream>>>(out, x, ids);
}

__global__ AICORE void permute_outside(__gm__ float *out, __gm__ float *x, __gm__ int32_t *ids)
{
    Wide a, b;
    WideIndex index;
    VecTile<int32_t, 8, 64> tmp;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(index, 0x2000);
    TASSIGN(tmp, 0x3000);
    Matrix<float, 8, 64> xGlobal(x), outGlobal(out);
    Matrix<int32_t, 8, 64> idsGlobal(ids);
    TLOAD(a, xGlobal);
    TLOAD(index, idsGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TGATHER(b, a, index, tmp);  // fault: an index of 512 or more
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_permute_outside(float *out, float *x, int32_t *ids, void *stream)
{
    permute_outside<<<1, nullptr, stream>>>(out, x, ids);
}

__global__ AICORE void unpermute(__gm__ float *out, __gm__ float *x, __gm__ int32_t *ids)
{
    Wide a, b;
    WideIndex index;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(index, 0x2000);
    Matrix<float, 8, 64> xGlobal(x), outGlobal(out);
    Matrix<int32_t, 8, 64> idsGlobal(ids);
    TLOAD(a, xGlobal);
    TLOAD(index, idsGlobal);
    TEXPANDS(b, 0.0f);
    Handshake<PIPE_MTE2, PIPE_V>();
    TSCATTER(b, a, index);  // fault: an element that is written twice, if the data have one
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_unpermute(float *out, float *x, int32_t *ids, void *stream)
{
    unpermute<<<1, nullptr, stream>>>(out, x, ids);
}
