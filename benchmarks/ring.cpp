#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int W = 64;
using Tile_ = Tile<TileType::Vec, float, 1, W, BLayout::RowMajor, -1, -1>;
using Shape_ = Shape<1, 1, 1, 1, W>;
using Stride_ = Stride<1, 1, 1, W, 1>;
using Global_ = GlobalTensor<float, Shape_, Stride_>;

__global__ AICORE void ring(__gm__ float* out, __gm__ float* a, __gm__ float* b, int rounds) {
  Tile_ x[2] = {Tile_(1, W), Tile_(1, W)}, y[2] = {Tile_(1, W), Tile_(1, W)}, z[2] = {Tile_(1, W), Tile_(1, W)};
  for (int k = 0; k < 2; ++k) {
    TASSIGN(x[k], 0x0000 + k * 0x400);
    TASSIGN(y[k], 0x4000 + k * 0x400);
    TASSIGN(z[k], 0x8000 + k * 0x400);
  }
  set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
  set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
  set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
  set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
  for (int i = 0; i < rounds; ++i) {
    const int k = i % 2;
    const event_t e = k ? EVENT_ID1 : EVENT_ID0;
    const size_t at = (size_t(get_block_idx()) * rounds + i) * W;
    Global_ ga(a + at), gb(b + at), go(out + at);
    wait_flag(PIPE_V, PIPE_MTE2, e);
    TLOAD(x[k], ga);
    TLOAD(y[k], gb);
    set_flag(PIPE_MTE2, PIPE_V, e);
    wait_flag(PIPE_MTE2, PIPE_V, e);
    wait_flag(PIPE_MTE3, PIPE_V, e);
    TADD(z[k], x[k], y[k]);
    set_flag(PIPE_V, PIPE_MTE2, e);
    set_flag(PIPE_V, PIPE_MTE3, e);
    wait_flag(PIPE_V, PIPE_MTE3, e);
    TSTORE(go, z[k]);
    set_flag(PIPE_MTE3, PIPE_V, e);
  }
  wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
  wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

extern "C" void call(void* stream, float* out, float* a, float* b, int blocks, int rounds) {
  ring<<<blocks, nullptr, stream>>>(out, a, b, rounds);
}
