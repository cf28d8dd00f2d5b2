// A5: tokens of buffers order the pipes, two buffers of each kind.
#include "../kernels/common.hpp"

#if defined(PTO_NPU_ARCH_A5)

constexpr int kRows = 16;
constexpr int kCols = 64;
constexpr uint64_t kBytes = kRows * kCols * sizeof(float);
using Part = VecTile<float, kRows, kCols>;
using Global = Matrix<float, kRows, kCols>;

__global__ AICORE void tokens(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    Part a, b;
    for (int i = 0; i < tiles; ++i) {
        const int from = i % 2;
        const int to = 2 + i % 2;
        TASSIGN(a, from * kBytes);
        TASSIGN(b, to * kBytes);
        Global xGlobal(x + i * kRows * kCols), outGlobal(out + i * kRows * kCols);
        get_buf(PIPE_MTE2, from, 0);
        TLOAD(a, xGlobal);
        rls_buf(PIPE_MTE2, from, 0);
        get_buf(PIPE_V, from, 0);
        get_buf(PIPE_V, to, 0);
        TMULS(b, a, 2.0f);
        rls_buf(PIPE_V, from, 0);
        rls_buf(PIPE_V, to, 0);
        get_buf(PIPE_MTE3, to, 0);
        TSTORE(outGlobal, b);
        rls_buf(PIPE_MTE3, to, 0);
    }
}

extern "C" void launch_tokens(float *out, float *x, int32_t tiles, void *stream)
{
    tokens<<<1, nullptr, stream>>>(out, x, tiles);
}

#endif
