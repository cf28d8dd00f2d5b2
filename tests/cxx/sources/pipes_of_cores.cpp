// Flags on pipes that their core does not have.
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kSize = 16;
template <typename T>
using Square = GlobalTensor<T, Shape<1, 1, 1, kSize, kSize>, Stride<1, 1, 1, kSize, 1>>;

/// The cube core loads and hands over on one pipe, the vector core waits on another, and may use a flag of its own.
template <pipe_t Sets, pipe_t Waits, pipe_t From = PIPE_V, pipe_t To = PIPE_MTE3>
__global__ AICORE void HandOver(__gm__ float *out, __gm__ half *a)
{
#if defined(__DAV_CUBE__)
    Tile<TileType::Mat, half, kSize, kSize, BLayout::ColMajor, kSize, kSize, SLayout::RowMajor, 512> one;
    TASSIGN(one, 0x0);
    Square<half> aGlobal(a);
    TLOAD(one, aGlobal);
    set_intra_block(Sets, 0);  // cube core
#endif
#if defined(__DAV_VEC__)
    if (get_subblockid() != 0) {
        return;
    }
    Tile<TileType::Vec, float, kSize, kSize> v;
    TASSIGN(v, 0x0);
    Square<float> outGlobal(out);
    wait_intra_block(Waits, 0);  // vector core
    TEXPANDS(v, 1.0f);
    set_flag(From, To, EVENT_ID1);  // flag
    wait_flag(From, To, EVENT_ID1);
    pipe_barrier(PIPE_ALL);
    TSTORE(outGlobal, v);
#endif
}

extern "C" void own_pipes(float *out, half *a, void *stream)
{
    HandOver<PIPE_MTE2, PIPE_V><<<1, nullptr, stream>>>(out, a);
}

extern "C" void cube_sets_v(float *out, half *a, void *stream)
{
    HandOver<PIPE_V, PIPE_V><<<1, nullptr, stream>>>(out, a);
}

extern "C" void vector_waits_fix(float *out, half *a, void *stream)
{
    HandOver<PIPE_MTE2, PIPE_FIX><<<1, nullptr, stream>>>(out, a);
}

extern "C" void vector_flags_m(float *out, half *a, void *stream)
{
    HandOver<PIPE_MTE2, PIPE_V, PIPE_M, PIPE_FIX><<<1, nullptr, stream>>>(out, a);
}

extern "C" void no_single_pipe(float *out, half *a, void *stream)
{
    HandOver<PIPE_MTE2, PIPE_V, PIPE_ALL, PIPE_V><<<1, nullptr, stream>>>(out, a);
}
