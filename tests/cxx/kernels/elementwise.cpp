// Elementwise kernels: arithmetic on whole tiles, with flags, events, double buffering and ragged tails.
#include "common.hpp"

using Block = VecTile<float, 16, 64>;
using Global = Matrix<float, 16, 64>;
constexpr int kBytes = 16 * 64 * sizeof(float);

// --- One tile -----------------------------------------------------------------------------------------------

__global__ AICORE void add_flags(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADD(c, a, b);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, c);
}

extern "C" void launch_add_flags(float *out, float *x, float *y, void *stream)
{
    add_flags<<<1, nullptr, stream>>>(out, x, y);
}

template <typename T, int kTileRows, int kTileCols, int kRows, int kCols>
__global__ AICORE void add_events(__gm__ T *out, __gm__ T *x, __gm__ T *y)
{
    using GlobalData = GlobalTensor<T, Shape<1, 1, 1, kRows, kCols>, Stride<1, 1, 1, kCols, 1>>;
    using TileData = Tile<TileType::Vec, T, kTileRows, kTileCols, BLayout::RowMajor, -1, -1>;
    TileData a(kRows, kCols);
    TileData b(kRows, kCols);
    TileData c(kRows, kCols);
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x4000);
    TASSIGN(c, 0x8000);
    GlobalData xGlobal(x), yGlobal(y), outGlobal(out);
    Event<Op::TLOAD, Op::TADD> loaded;
    Event<Op::TADD, Op::TSTORE_VEC> added;
    TLOAD(a, xGlobal);
    loaded = TLOAD(b, yGlobal);
    added = TADD(c, a, b, loaded);
    TSTORE(outGlobal, c, added);
}

extern "C" void launch_add_events(float *out, float *x, float *y, void *stream)
{
    add_events<float, 16, 64, 13, 50><<<1, nullptr, stream>>>(out, x, y);
}

extern "C" void launch_add_events_int32(int32_t *out, int32_t *x, int32_t *y, void *stream)
{
    add_events<int32_t, 8, 64, 8, 64><<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void sub_events_forgotten(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    Event<Op::TLOAD, Op::TSUB> loaded;
    TLOAD(a, xGlobal);
    loaded = TLOAD(b, yGlobal);
    TSUB(c, a, b, loaded);
    TSTORE(outGlobal, c);  // fault: nothing waits for TSUB
}

extern "C" void launch_sub_events_forgotten(float *out, float *x, float *y, void *stream)
{
    sub_events_forgotten<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void add_no_load_flag(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    TADD(c, a, b);  // fault: MTE2 to V is missing
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, c);
}

extern "C" void launch_add_no_load_flag(float *out, float *x, float *y, void *stream)
{
    add_no_load_flag<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void mul_no_store_flag(__gm__ float *out, __gm__ float *x)
{
    Block a, c;
    TASSIGN(a, 0x0);
    TASSIGN(c, 0x2000);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMUL(c, a, a);
    TSTORE(outGlobal, c);  // fault: V to MTE3 is missing
}

extern "C" void launch_mul_no_store_flag(float *out, float *x, void *stream)
{
    mul_no_store_flag<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void max_missing_wait(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMAX(a, a, b);  // fault: the wait is missing
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_max_missing_wait(float *out, float *x, float *y, void *stream)
{
    max_missing_wait<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void min_missing_set(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMIN(a, a, b);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);  // fault: nothing sets it
    TSTORE(outGlobal, a);
}

extern "C" void launch_min_missing_set(float *out, float *x, float *y, void *stream)
{
    min_missing_set<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void exp_reversed_flag(__gm__ float *out, __gm__ float *x)
{
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    TEXP(a, a);  // fault: the flag is V to MTE2 instead of MTE2 to V
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_exp_reversed_flag(float *out, float *x, void *stream)
{
    exp_reversed_flag<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void abs_wrong_pipe(__gm__ float *out, __gm__ float *x)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TABS(b, a);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, b);  // fault: the flag is MTE2 to MTE3 instead of V to MTE3
}

extern "C" void launch_abs_wrong_pipe(float *out, float *x, void *stream)
{
    abs_wrong_pipe<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void sqrt_wrong_event(__gm__ float *out, __gm__ float *x)
{
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);  // fault: another event id than the set
    TSQRT(a, a);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_sqrt_wrong_event(float *out, float *x, void *stream)
{
    sqrt_wrong_event<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void adds_set_twice(__gm__ float *out, __gm__ float *x)
{
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADDS(a, a, 1.5f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);  // fault: set again before the wait
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_adds_set_twice(float *out, float *x, void *stream)
{
    adds_set_twice<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void muls_left_set(__gm__ float *out, __gm__ float *x)
{
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMULS(a, a, 0.5f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);  // fault: nothing waits for it
}

extern "C" void launch_muls_left_set(float *out, float *x, void *stream)
{
    muls_left_set<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void reload_no_barrier(__gm__ float *out, __gm__ float *work, __gm__ float *x)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x), workGlobal(work), outGlobal(out);
    TLOAD(a, xGlobal);
    pipe_barrier(PIPE_ALL);
    TSTORE(workGlobal, a);
    TLOAD(b, workGlobal);  // fault: nothing makes it wait for the store
    pipe_barrier(PIPE_ALL);
    TSTORE(outGlobal, b);
}

extern "C" void launch_reload_no_barrier(float *out, float *work, float *x, void *stream)
{
    reload_no_barrier<<<1, nullptr, stream>>>(out, work, x);
}

__global__ AICORE void reload_barriers(__gm__ float *out, __gm__ float *work, __gm__ float *x)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x), workGlobal(work), outGlobal(out);
    TLOAD(a, xGlobal);
    pipe_barrier(PIPE_ALL);
    TADDS(a, a, 1.0f);
    pipe_barrier(PIPE_ALL);
    TSTORE(workGlobal, a);
    pipe_barrier(PIPE_ALL);
    TLOAD(b, workGlobal);
    pipe_barrier(PIPE_ALL);
    TSTORE(outGlobal, b);
}

extern "C" void launch_reload_barriers(float *out, float *work, float *x, void *stream)
{
    reload_barriers<<<1, nullptr, stream>>>(out, work, x);
}

// --- Bits, conversions, comparisons --------------------------------------------------------------------------

__global__ AICORE void bits(__gm__ int32_t *out, __gm__ int32_t *x, __gm__ int32_t *y)
{
    VecTile<int32_t, 8, 64> a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Matrix<int32_t, 8, 64> xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADD(b, a, b);
    pipe_barrier(PIPE_V);
    TSHLS(b, b, 2);
    pipe_barrier(PIPE_V);
    TSHRS(b, b, 1);
    pipe_barrier(PIPE_V);
    TSUB(b, b, a);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_bits(int32_t *out, int32_t *x, int32_t *y, void *stream)
{
    bits<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void masks_of_int16(__gm__ int16_t *out, __gm__ int16_t *x, __gm__ int16_t *y)
{
    VecTile<int16_t, 8, 64> a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    Matrix<int16_t, 8, 64> xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TAND(c, a, b);
    pipe_barrier(PIPE_V);
    TOR(c, c, b);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, c);
}

extern "C" void launch_masks_of_int16(int16_t *out, int16_t *x, int16_t *y, void *stream)
{
    masks_of_int16<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void convert(__gm__ half *out, __gm__ float *x)
{
    Block a;
    VecTile<half, 16, 64> b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Global xGlobal(x);
    Matrix<half, 16, 64> outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TCVT(b, a, RoundMode::CAST_RINT);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_convert(half *out, float *x, void *stream)
{
    convert<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void fill(__gm__ float *out)
{
    Block a;
    TASSIGN(a, 0x0);
    Global outGlobal(out);
    TEXPANDS(a, 2.5f);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_fill(float *out, void *stream)
{
    fill<<<1, nullptr, stream>>>(out);
}

__global__ AICORE void exp_of_integers(__gm__ int32_t *out, __gm__ int32_t *x)
{
    VecTile<int32_t, 16, 64> a;
    TASSIGN(a, 0x0);
    Matrix<int32_t, 16, 64> xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TEXP(a, a);  // fault: TEXP takes floats
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_exp_of_integers(int32_t *out, int32_t *x, void *stream)
{
    exp_of_integers<<<1, nullptr, stream>>>(out, x);
}

// --- Addresses -----------------------------------------------------------------------------------------------

__global__ AICORE void overlapping_tiles(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x800);  // fault: a lies from 0x0 to 0x1000
    Global xGlobal(x), yGlobal(y), outGlobal(out);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADD(a, a, b);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_overlapping_tiles(float *out, float *x, float *y, void *stream)
{
    overlapping_tiles<<<1, nullptr, stream>>>(out, x, y);
}

__global__ AICORE void tile_past_the_end(__gm__ float *out, __gm__ float *x)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x3f800);  // fault: ends behind the memory of both targets
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TMULS(b, a, 2.0f);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_tile_past_the_end(float *out, float *x, void *stream)
{
    tile_past_the_end<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void unaligned_tile(__gm__ float *out, __gm__ float *x)
{
    Block a, b;
    TASSIGN(a, 0x10);
    TASSIGN(b, 0x2000);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);  // fault: 0x10 is no multiple of 32
    Handshake<PIPE_MTE2, PIPE_V>();
    TADDS(b, a, 1.0f);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_unaligned_tile(float *out, float *x, void *stream)
{
    unaligned_tile<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void narrow_tile(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 12> a;
    TASSIGN(a, 0x0);
    Matrix<float, 16, 12> xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);  // fault: rows of 48 bytes
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_narrow_tile(float *out, float *x, void *stream)
{
    narrow_tile<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void never_loaded(__gm__ float *out, __gm__ float *x)
{
    Block a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADD(c, a, b);  // fault: nothing has written b
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, c);
}

extern "C" void launch_never_loaded(float *out, float *x, void *stream)
{
    never_loaded<<<1, nullptr, stream>>>(out, x);
}

// --- Double buffering ----------------------------------------------------------------------------------------

constexpr int kTiles = 8;

__global__ AICORE void ping_pong(__gm__ float *out, __gm__ float *x)
{
    Block in[2], done[2];
    for (int k = 0; k < 2; ++k) {
        TASSIGN(in[k], k * kBytes);
        TASSIGN(done[k], 0x8000 + k * kBytes);
    }
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    for (int i = 0; i < kTiles; ++i) {
        const int k = i % 2;
        const event_t id = static_cast<event_t>(k);
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        wait_flag(PIPE_V, PIPE_MTE2, id);
        TLOAD(in[k], xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE3, PIPE_V, id);
        TMULS(done[k], in[k], 2.0f);
        set_flag(PIPE_V, PIPE_MTE2, id);
        set_flag(PIPE_V, PIPE_MTE3, id);
        wait_flag(PIPE_V, PIPE_MTE3, id);
        TSTORE(outGlobal, done[k]);
        set_flag(PIPE_MTE3, PIPE_V, id);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

extern "C" void launch_ping_pong(float *out, float *x, void *stream)
{
    ping_pong<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void ping_pong_no_reverse(__gm__ float *out, __gm__ float *x)
{
    Block in[2], done[2];
    for (int k = 0; k < 2; ++k) {
        TASSIGN(in[k], k * kBytes);
        TASSIGN(done[k], 0x8000 + k * kBytes);
    }
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    for (int i = 0; i < kTiles; ++i) {
        const int k = i % 2;
        const event_t id = static_cast<event_t>(k);
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        TLOAD(in[k], xGlobal);  // fault: nothing makes it wait for TMULS two iterations before
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE3, PIPE_V, id);
        TMULS(done[k], in[k], 2.0f);
        set_flag(PIPE_V, PIPE_MTE3, id);
        wait_flag(PIPE_V, PIPE_MTE3, id);
        TSTORE(outGlobal, done[k]);
        set_flag(PIPE_MTE3, PIPE_V, id);
    }
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

extern "C" void launch_ping_pong_no_reverse(float *out, float *x, void *stream)
{
    ping_pong_no_reverse<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void ping_pong_not_primed(__gm__ float *out, __gm__ float *x)
{
    Block in[2];
    TASSIGN(in[0], 0);
    TASSIGN(in[1], kBytes);
    for (int i = 0; i < kTiles; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        wait_flag(PIPE_MTE3, PIPE_MTE2, id);  // fault: not set before the first two iterations
        TLOAD(in[i % 2], xGlobal);
        set_flag(PIPE_MTE2, PIPE_MTE3, id);
        wait_flag(PIPE_MTE2, PIPE_MTE3, id);
        TSTORE(outGlobal, in[i % 2]);
        set_flag(PIPE_MTE3, PIPE_MTE2, id);
    }
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
}

extern "C" void launch_ping_pong_not_primed(float *out, float *x, void *stream)
{
    ping_pong_not_primed<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void ping_pong_not_drained(__gm__ float *out, __gm__ float *x)
{
    Block in[2];
    TASSIGN(in[0], 0);
    TASSIGN(in[1], kBytes);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < kTiles; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        wait_flag(PIPE_MTE3, PIPE_MTE2, id);
        TLOAD(in[i % 2], xGlobal);
        set_flag(PIPE_MTE2, PIPE_MTE3, id);
        wait_flag(PIPE_MTE2, PIPE_MTE3, id);
        TSTORE(outGlobal, in[i % 2]);
        set_flag(PIPE_MTE3, PIPE_MTE2, id);  // fault: left set by the last two iterations
    }
}

extern "C" void launch_ping_pong_not_drained(float *out, float *x, void *stream)
{
    ping_pong_not_drained<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void ping_pong_one_buffer(__gm__ float *out, __gm__ float *x)
{
    Block in;
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < kTiles; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        Global xGlobal(x + i * 16 * 64), outGlobal(out + i * 16 * 64);
        TASSIGN(in, 0x0);
        wait_flag(PIPE_MTE3, PIPE_MTE2, id);
        TLOAD(in, xGlobal);  // fault: both ids guard one buffer
        set_flag(PIPE_MTE2, PIPE_MTE3, id);
        wait_flag(PIPE_MTE2, PIPE_MTE3, id);
        TSTORE(outGlobal, in);
        set_flag(PIPE_MTE3, PIPE_MTE2, id);
    }
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
}

extern "C" void launch_ping_pong_one_buffer(float *out, float *x, void *stream)
{
    ping_pong_one_buffer<<<1, nullptr, stream>>>(out, x);
}

// --- Blocks and ragged tails ---------------------------------------------------------------------------------

using PartTile = VecTile<float, 16, 64, -1, 64>;

__global__ AICORE void ragged_rows(__gm__ float *out, __gm__ float *x, int32_t rows)
{
    const int first = static_cast<int>(get_block_idx()) * 16;
    const int n = rows - first < 16 ? rows - first : 16;
    PartTile a(n);
    TASSIGN(a, 0x0);
    auto xGlobal = SomeRows<float, 64>(x + first * 64, n);
    auto outGlobal = SomeRows<float, 64>(out + first * 64, n);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADDS(a, a, 3.0f);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_ragged_rows(float *out, float *x, int32_t rows, void *stream)
{
    ragged_rows<<<3, nullptr, stream>>>(out, x, rows);
}

__global__ AICORE void ragged_rows_unclipped(__gm__ float *out, __gm__ float *x)
{
    const int first = static_cast<int>(get_block_idx()) * 16;
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x + first * 64), outGlobal(out + first * 64);
    TLOAD(a, xGlobal);  // fault: the last block reads 16 rows where 8 are left
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_ragged_rows_unclipped(float *out, float *x, void *stream)
{
    ragged_rows_unclipped<<<3, nullptr, stream>>>(out, x);
}

__global__ AICORE void ragged_columns(__gm__ float *out, __gm__ float *x)
{
    using Part = VecTile<float, 16, 64, 16, 50>;
    using View = Matrix<float, 16, 50>;
    Part a;
    TASSIGN(a, 0x0);
    View xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TRECIP(a, a);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_ragged_columns(float *out, float *x, void *stream)
{
    ragged_columns<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void ragged_columns_padding(__gm__ float *out, __gm__ float *x)
{
    VecTile<float, 16, 64, 16, 50> a;
    Block whole, b;
    TASSIGN(a, 0x0);
    TASSIGN(whole, 0x0);
    TASSIGN(b, 0x1000);
    Matrix<float, 16, 50> xGlobal(x);
    Global outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADDS(b, whole, 1.0f);  // fault: columns 50 to 63 were not loaded
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, b);
}

extern "C" void launch_ragged_columns_padding(float *out, float *x, void *stream)
{
    ragged_columns_padding<<<1, nullptr, stream>>>(out, x);
}
