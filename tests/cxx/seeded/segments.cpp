// Rows of a table, doubled and added to the rows of segments: MGATHER, then MSCATTER with an atomic addition.
#include "../kernels/common.hpp"

constexpr int kTable = 40;
constexpr int kSegments = 10;
constexpr int kCount = 16;
constexpr int kWidth = 32;
using Index = VecTile<int32_t, 1, kCount>;
using Rows = VecTile<float, kCount, kWidth>;

__global__ AICORE void segments(
    __gm__ float *out, __gm__ float *table, __gm__ int32_t *ids, __gm__ int32_t *segment, int32_t tiles)
{
    Index from, to;
    Rows rows;
    TASSIGN(from, 0x0);
    TASSIGN(to, 0x40);
    TASSIGN(rows, 0x80);
    Matrix<float, kTable, kWidth> tableGlobal(table);
    Matrix<float, kSegments, kWidth> outGlobal(out);
    for (int i = 0; i < tiles; ++i) {
        const int at = (static_cast<int>(get_block_idx()) * tiles + i) * kCount;
        Matrix<int32_t, 1, kCount> idsGlobal(ids + at), segmentGlobal(segment + at);
        TLOAD(from, idsGlobal);
        TLOAD(to, segmentGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        set_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
        MGATHER<Coalesce::Row, GatherOOB::Clamp>(rows, tableGlobal, from);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        TADD(rows, rows, rows);
        pipe_barrier(PIPE_ALL);
        MSCATTER<Coalesce::Row, ScatterAtomicOp::Add, ScatterOOB::Skip>(outGlobal, rows, to);
        pipe_barrier(PIPE_ALL);
    }
}

extern "C" void launch_segments(
    float *out, float *table, int32_t *ids, int32_t *segment, int32_t tiles, void *stream)
{
    segments<<<2, nullptr, stream>>>(out, table, ids, segment, tiles);
}
