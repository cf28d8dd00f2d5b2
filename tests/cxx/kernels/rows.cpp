// Kernels over rows and columns: reductions, expansions, comparisons, transposition.
#include "common.hpp"

using Block = VecTile<float, 16, 64>;
using Global = Matrix<float, 16, 64>;
using Column = ColumnTile<float, 16>;
using ColumnGlobal = GlobalTensor<float, Shape<1, 1, 1, 1, 16>, Stride<16, 16, 16, 16, 1>>;
/// A column of 16 numbers as a row: the same bytes.
using ColumnAsRow = VecTile<float, 1, 16>;

// --- Reductions ----------------------------------------------------------------------------------------------

__global__ AICORE void row_sum(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    Column sums;
    ColumnAsRow flat;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(sums, 0x2000);
    TASSIGN(flat, 0x2000);
    Global xGlobal(x);
    ColumnGlobal outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWSUM(sums, a, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, flat);
}

extern "C" void launch_row_sum(float *out, float *x, void *stream)
{
    row_sum<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void row_max_no_flag(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    Column most;
    ColumnAsRow flat;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(most, 0x2000);
    TASSIGN(flat, 0x2000);
    Global xGlobal(x);
    ColumnGlobal outGlobal(out);
    TLOAD(a, xGlobal);
    TROWMAX(most, a, tmp);  // fault: MTE2 to V is missing
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, flat);
}

extern "C" void launch_row_max_no_flag(float *out, float *x, void *stream)
{
    row_max_no_flag<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void row_min_workspace_overlaps(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b, tmp;
    Column least;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(least, 0x3000);
    TASSIGN(tmp, 0x1800);  // fault: over the second half of b
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWMIN(least, a, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDADD(b, b, least);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_row_min_workspace_overlaps(float *out, float *x, float *y, void *stream)
{
    row_min_workspace_overlaps<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void softmax(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    Column most, sums;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(most, 0x2000);
    TASSIGN(sums, 0x2100);
    Global xGlobal(x + get_block_idx() * 16 * 64), outGlobal(out + get_block_idx() * 16 * 64);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWMAX(most, a, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDSUB(a, a, most);
    pipe_barrier(PIPE_V);
    TEXP(a, a);
    pipe_barrier(PIPE_V);
    TROWSUM(sums, a, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDDIV(a, a, sums);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_softmax(float *out, float *x, void *stream)
{
    softmax<<<4, nullptr, stream>>>(out, x);
}

__global__ AICORE void softmax_wrong_event(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    Column most, sums;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(most, 0x2000);
    TASSIGN(sums, 0x2100);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);
    TROWMAX(most, a, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDSUB(a, a, most);
    pipe_barrier(PIPE_V);
    TEXP(a, a);
    pipe_barrier(PIPE_V);
    TROWSUM(sums, a, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDDIV(a, a, sums);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID3);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID2);  // fault: another event id than the set
    TSTORE(outGlobal, a);
}

extern "C" void launch_softmax_wrong_event(float *out, float *x, void *stream)
{
    softmax_wrong_event<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void row_sum_of_padding(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 64, 16, 40> part;
    Block a, tmp;
    Column sums;
    ColumnAsRow flat;
    TASSIGN(part, 0x0);
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(sums, 0x2000);
    TASSIGN(flat, 0x2000);
    Matrix<float, 16, 40> xGlobal(x);
    ColumnGlobal outGlobal(out);
    TLOAD(part, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWSUM(sums, a, tmp);  // fault: sums 64 columns, of which 40 were loaded
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, flat);
}

extern "C" void launch_row_sum_of_padding(float *out, float *x, void *stream)
{
    row_sum_of_padding<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void row_sum_cleared_padding(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 64, 16, 40> part;
    Block a, tmp;
    Column sums;
    ColumnAsRow flat;
    TASSIGN(part, 0x0);
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(sums, 0x2000);
    TASSIGN(flat, 0x2000);
    Matrix<float, 16, 40> xGlobal(x);
    ColumnGlobal outGlobal(out);
    TEXPANDS(a, 0.0f);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    TLOAD(part, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWSUM(sums, a, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, flat);
}

extern "C" void launch_row_sum_cleared_padding(float *out, float *x, void *stream)
{
    row_sum_cleared_padding<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void row_sum_of_bytes(__gm__ int8_t *out, __gm__ int8_t *x)
{
    VecTile<int8_t, 32, 64> a, tmp;
    ColumnTile<int8_t, 32> sums;
    VecTile<int8_t, 1, 32> flat;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x1000);
    TASSIGN(sums, 0x2000);
    TASSIGN(flat, 0x2000);
    Matrix<int8_t, 32, 64> xGlobal(x);
    Matrix<int8_t, 1, 32> outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TROWSUM(sums, a, tmp);  // fault: no target sums int8
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, flat);
}

extern "C" void launch_row_sum_of_bytes(int8_t *out, int8_t *x, void *stream)
{
    row_sum_of_bytes<<<1, nullptr, stream>>>(out, x);
}

// --- A loop over rows ----------------------------------------------------------------------------------------

__global__ AICORE void column_sums(__gm__ float *out, __gm__ float *x, int32_t rows)
{
    VecTile<float, 1, 64> row[2], sums;
    TASSIGN(row[0], 0x0);
    TASSIGN(row[1], 0x100);
    TASSIGN(sums, 0x200);
    Matrix<float, 1, 64> outGlobal(out);
    TEXPANDS(sums, 0.0f);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < rows; ++i) {
        const event_t id = static_cast<event_t>(i & 1);
        Matrix<float, 1, 64> xGlobal(x + i * 64);
        wait_flag(PIPE_V, PIPE_MTE2, id);
        TLOAD(row[i & 1], xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        TADD(sums, sums, row[i & 1]);
        pipe_barrier(PIPE_V);
        set_flag(PIPE_V, PIPE_MTE2, id);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, sums);
}

extern "C" void launch_column_sums(float *out, float *x, int32_t rows, void *stream)
{
    column_sums<<<1, nullptr, stream>>>(out, x, rows);
}

__global__ AICORE void column_sums_no_reverse(__gm__ float *out, __gm__ float *x, int32_t rows)
{
    VecTile<float, 1, 64> row, sums;
    TASSIGN(row, 0x0);
    TASSIGN(sums, 0x200);
    Matrix<float, 1, 64> outGlobal(out);
    TEXPANDS(sums, 0.0f);
    for (int i = 0; i < rows; ++i) {
        Matrix<float, 1, 64> xGlobal(x + i * 64);
        TLOAD(row, xGlobal);  // fault: nothing makes it wait for TADD of the iteration before
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TADD(sums, sums, row);
        pipe_barrier(PIPE_V);
    }
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, sums);
}

extern "C" void launch_column_sums_no_reverse(float *out, float *x, int32_t rows, void *stream)
{
    column_sums_no_reverse<<<1, nullptr, stream>>>(out, x, rows);
}

__global__ AICORE void scale_rows_wait_first(__gm__ float *out, __gm__ float *x, __gm__ float *scales)
{
    Block a;
    Column scale;
    TASSIGN(a, 0x0);
    TASSIGN(scale, 0x1000);
    GlobalTensor<float, Shape<1, 1, 1, 16, 1>, Stride<16, 16, 16, 1, 1>, Layout::DN> scaleGlobal(scales);
    TLOAD(scale, scaleGlobal);
    for (int i = 0; i < 4; ++i) {
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        TLOAD(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TROWEXPANDMUL(a, a, scale);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);  // of another pipe than the set: the order of the two does not matter
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, a);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    }
}

extern "C" void launch_scale_rows_wait_first(float *out, float *x, float *scales, void *stream)
{
    scale_rows_wait_first<<<1, nullptr, stream>>>(out, x, scales);
}

__global__ AICORE void scale_rows(__gm__ float *out, __gm__ float *x, __gm__ float *scales)
{
    Block a;
    Column scale;
    TASSIGN(a, 0x0);
    TASSIGN(scale, 0x1000);
    GlobalTensor<float, Shape<1, 1, 1, 16, 1>, Stride<16, 16, 16, 1, 1>, Layout::DN> scaleGlobal(scales);
    TLOAD(scale, scaleGlobal);
    for (int i = 0; i < 4; ++i) {
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        TLOAD(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TROWEXPANDMUL(a, a, scale);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, a);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    }
}

extern "C" void launch_scale_rows(float *out, float *x, float *scales, void *stream)
{
    scale_rows<<<1, nullptr, stream>>>(out, x, scales);
}

// --- Columns -------------------------------------------------------------------------------------------------

__global__ AICORE void column_maximum(__gm__ float *out, __gm__ float *x)
{
    Block a;
    VecTile<float, 1, 64> most;
    TASSIGN(a, 0x0);
    TASSIGN(most, 0x1000);
    Global xGlobal(x);
    Matrix<float, 1, 64> outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TCOLMAX(most, a);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, most);
}

extern "C" void launch_column_maximum(float *out, float *x, void *stream)
{
    column_maximum<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void add_bias(__gm__ float *out, __gm__ float *x, __gm__ float *bias)
{
    Block a;
    VecTile<float, 1, 64> row;
    TASSIGN(a, 0x0);
    TASSIGN(row, 0x1000);
    Global xGlobal(x), outGlobal(out);
    Matrix<float, 1, 64> biasGlobal(bias);
    TLOAD(a, xGlobal);
    TLOAD(row, biasGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TCOLEXPANDADD(a, a, row);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_add_bias(float *out, float *x, float *bias, void *stream)
{
    add_bias<<<1, nullptr, stream>>>(out, x, bias);
}

__global__ AICORE void add_bias_loaded_late(__gm__ float *out, __gm__ float *x, __gm__ float *bias)
{
    Block a;
    VecTile<float, 1, 64> row;
    TASSIGN(a, 0x0);
    TASSIGN(row, 0x1000);
    Global xGlobal(x), outGlobal(out);
    Matrix<float, 1, 64> biasGlobal(bias);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TLOAD(row, biasGlobal);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TCOLEXPANDADD(a, a, row);  // fault: the flag was set before the bias was loaded
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_add_bias_loaded_late(float *out, float *x, float *bias, void *stream)
{
    add_bias_loaded_late<<<1, nullptr, stream>>>(out, x, bias);
}

// --- Comparisons, transposition ------------------------------------------------------------------------------

__global__ AICORE void greater_of(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b, c;
    VecTile<uint8_t, 16, 32, 16, 8> mask;
    VecTile<uint8_t, 1, 32> tmp;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    TASSIGN(mask, 0x3000);
    TASSIGN(tmp, 0x4000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TCMP(mask, a, b, CmpMode::GT);
    pipe_barrier(PIPE_V);
    TSEL(c, mask, a, b, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, c);
}

extern "C" void launch_greater_of(float *out, float *x, float *y, void *stream)
{
    greater_of<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void transpose(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    VecTile<float, 64, 16> b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(tmp, 0x2000);
    Global xGlobal(x);
    Matrix<float, 64, 16> outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TTRANS(b, a, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_transpose(float *out, float *x, void *stream)
{
    transpose<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void transpose_too_early(__gm__ float *out, __gm__ float *x)
{
    Block a, tmp;
    VecTile<float, 64, 16> b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(tmp, 0x2000);
    Global xGlobal(x);
    Matrix<float, 64, 16> outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TTRANS(b, a, tmp);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, b);  // fault: the flag was set before TTRANS
}

extern "C" void launch_transpose_too_early(float *out, float *x, void *stream)
{
    transpose_too_early<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void column_minimum_wrong_width(__gm__ float *out, __gm__ float *x)
{
    Block a;
    VecTile<float, 1, 32> least;
    TASSIGN(a, 0x0);
    TASSIGN(least, 0x1000);
    Global xGlobal(x);
    Matrix<float, 1, 32> outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TCOLMIN(least, a);  // fault: 64 columns into 32
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, least);
}

extern "C" void launch_column_minimum_wrong_width(float *out, float *x, void *stream)
{
    column_minimum_wrong_width<<<1, nullptr, stream>>>(out, x);
}

// --- Vector instructions that depend on each other ------------------------------------------------------------

/// The second instruction reads what the first one wrote, in another order.
__global__ AICORE void transposed_double(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 16> a, doubled, turned, tmp;
    TASSIGN(a, 0x0);
    TASSIGN(doubled, 0x1000);
    TASSIGN(turned, 0x2000);
    TASSIGN(tmp, 0x3000);
    Matrix<float, 16, 16> xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TMULS(doubled, a, 2.0f);
    pipe_barrier(PIPE_V);
    TTRANS(turned, doubled, tmp);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, turned);
}

extern "C" void launch_transposed_double(float *out, float *x, void *stream)
{
    transposed_double<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void transposed_double_no_barrier(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 16> a, doubled, turned, tmp;
    TASSIGN(a, 0x0);
    TASSIGN(doubled, 0x1000);
    TASSIGN(turned, 0x2000);
    TASSIGN(tmp, 0x3000);
    Matrix<float, 16, 16> xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TMULS(doubled, a, 2.0f);
    TTRANS(turned, doubled, tmp);  // fault: it may read before the product is there
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, turned);
}

extern "C" void launch_transposed_double_no_barrier(float *out, float *x, void *stream)
{
    transposed_double_no_barrier<<<1, nullptr, stream>>>(out, x);
}
