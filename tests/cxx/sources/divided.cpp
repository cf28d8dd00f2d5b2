// A5: a product goes from the cube core into UB: to one vector core, or a half of its rows or columns to each.
#include <pto/common/fifo.hpp>
#include "../kernels/cores.hpp"

constexpr int M = 32, K = 16, N = 64;
using Acc = TileAcc<float, M, N>;

AICORE inline void product(Acc& acc, __gm__ half* a, __gm__ half* b) {
  MatTile<half, M, K> one;
  MatTile<half, K, N> other;
  TileLeft<half, M, K> left;
  TileRight<half, K, N> right;
  TASSIGN(one, 0x0);
  TASSIGN(other, 0x1000);
  TASSIGN(left, 0x0);
  TASSIGN(right, 0x0);
  Matrix<half, M, K> aGlobal(a);
  Matrix<half, K, N> bGlobal(b);
  TLOAD(one, aGlobal);
  TLOAD(other, bGlobal);
  Handshake<PIPE_MTE2, PIPE_MTE1>();
  TMOV(left, one);
  TMOV(right, other);
  Handshake<PIPE_MTE1, PIPE_M>();
  TMATMUL(acc, left, right);
  Handshake<PIPE_M, PIPE_FIX>();
}

template <AccToVecMode MODE, int ROWS, int COLS>
AICORE inline void moved(__gm__ float* out, __gm__ half* a, __gm__ half* b) {
  using Part = VecTile<float, ROWS, COLS>;
  Part part;
  TASSIGN(part, 0x400);
  if constexpr (kOnCube) {
    Acc acc;
    TASSIGN(acc, 0x0);
    product(acc, a, b);
    TMOV<Part, Acc, MODE>(part, acc);
    set_intra_block(PIPE_FIX, 0);
    set_intra_block(PIPE_FIX, 16);
  } else {
    const int core = static_cast<int>(get_subblockid());
    wait_intra_block(PIPE_MTE3, 0);
    if (ROWS * COLS == M * N && core != (MODE == AccToVecMode::SingleModeVec1)) return;
    Matrix<float, ROWS, COLS, N> to(out + (ROWS < M ? core * ROWS * N : COLS < N ? core * COLS : 0));
    TSTORE(to, part);
  }
}

// SPENT: the free slots that the constructor announces are waited for before the first push.
template <TileSplitAxis PUSH, TileSplitAxis POP, bool SPENT = false>
AICORE inline void pushed(__gm__ float* out, __gm__ half* a, __gm__ half* b, int tiles) {
  constexpr int ROWS = POP == TileSplitAxis::TILE_UP_DOWN ? M / 2 : M;
  constexpr int COLS = POP == TileSplitAxis::TILE_LEFT_RIGHT ? N / 2 : N;
  using Part = VecTile<float, ROWS, COLS>;
  using Ring = TPipe<0, Direction::DIR_C2V, M * N * 4, 2, 2, PUSH == TileSplitAxis::TILE_NO_SPLIT>;
  Ring ring(nullptr, 0x0, 0x0);
  if constexpr (kOnCube) {
    Acc acc;
    TASSIGN(acc, 0x0);
    for (int i = 0; SPENT && i < 2; ++i) ring.prod.template allocate<PUSH>();
    for (int i = 0; i < tiles; ++i) {
      product(acc, a + i * M * K, b);
      TPUSH<Ring, Acc, PUSH>(ring, acc);  // push
      pipe_barrier(PIPE_ALL);
    }
  } else {
    const int core = static_cast<int>(get_subblockid());
    if (POP == TileSplitAxis::TILE_NO_SPLIT && core != 0) return;
    Part popped, sum;
    TASSIGN(sum, 0x10000);
    for (int i = 0; i < tiles; ++i) {
      TPOP<Ring, Part, POP>(ring, popped);  // pop
      TADDS(sum, popped, 1.0f);  // read
      TFREE<Ring, POP>(ring);
      Handshake<PIPE_V, PIPE_MTE3>();
      Matrix<float, ROWS, COLS, N> to(out + i * M * N + core * (ROWS < M ? ROWS * N : COLS));
      TSTORE(to, sum);
      Handshake<PIPE_MTE3, PIPE_V>();
    }
    if constexpr (SPENT) ring.cons.template free<POP>();
  }
}

#define MOVE(name, ...)                                                                         \
  extern "C" __global__ AICORE void name(__gm__ float* out, __gm__ half* a, __gm__ half* b) {   \
    moved<AccToVecMode::__VA_ARGS__>(out, a, b);                                                \
  }
MOVE(vec0, SingleModeVec0, M, N)
MOVE(vec1, SingleModeVec1, M, N)
MOVE(split_m, DualModeSplitM, M / 2, N)
MOVE(split_n, DualModeSplitN, M, N / 2)

#define PUSH(name, ...)                                                                                   \
  extern "C" __global__ AICORE void name(__gm__ float* out, __gm__ half* a, __gm__ half* b, int tiles) {  \
    pushed<__VA_ARGS__>(out, a, b, tiles);                                                                \
  }
constexpr auto WHOLE = TileSplitAxis::TILE_NO_SPLIT, ROWS = TileSplitAxis::TILE_UP_DOWN;
constexpr auto COLS = TileSplitAxis::TILE_LEFT_RIGHT;
PUSH(whole, WHOLE, WHOLE)
PUSH(rows, ROWS, ROWS)
PUSH(cols, COLS, COLS)
PUSH(whole_spent, WHOLE, WHOLE, true)
PUSH(rows_spent, ROWS, ROWS, true)
PUSH(cols_spent, COLS, COLS, true)
PUSH(rows_as_cols, ROWS, COLS)
PUSH(cols_as_rows, COLS, ROWS)
PUSH(rows_as_whole, ROWS, WHOLE)
PUSH(whole_as_rows, WHOLE, ROWS)
