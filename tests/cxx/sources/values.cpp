// Kernels that read what instructions wrote.
#include "ptokit/recorder.hpp"

using namespace ptokit;

namespace {

template <typename Body>
void run(const char* name, std::uint64_t grid, Body body) {
  launch(name, grid, [](void* b) { (*static_cast<Body*>(b))(); }, &body);
}

TileInfo tile(const void* object, std::uint64_t address, int cols) {
  TileInfo info;
  info.object = object;
  info.address = address;
  info.assigned = 1;
  info.rows = info.valid_rows = 1;
  info.cols = info.valid_cols = cols;
  info.dtype = DType::i32;
  return info;
}

void move(const char* name, const TileInfo& t, std::int32_t* data, bool load) {
  GlobalInfo g;
  g.data = data;
  g.shape[4] = t.cols;
  g.dtype = DType::i32;
  Operand operands[] = {load ? Operand::of(t) : Operand::of(g), load ? Operand::of(g) : Operand::of(t)};
  call(name, operands, 2);
}

std::int32_t value(const TileInfo& t, std::uint64_t k) {
  std::int32_t found;
  read_value(t, k, &found, sizeof found);
  return found;
}

void mark(int id) {
  Operand operands[] = {Operand::of(id)};
  call("mark", operands, 1);
}

}  // namespace

extern "C" {

// Loads four elements and marks each of them.
void marks_values(std::int32_t* in) {
  run("marks_values", 1, [=] {
    TileInfo t = tile(in, 64, 4);
    move("tload", t, in, true);
    for (int k = 0; k < 4; ++k) mark(value(t, k));  // reads
  });
}

// Runs as often as the value says that the launch before it stored.
void counts(std::int32_t* in, std::int32_t* count) {
  run("stores", 1, [=] {
    TileInfo t = tile(in, 0, 1);
    move("tload", t, in, true);
    move("tstore", t, count, false);
  });
  run("loops", 1, [=] {
    for (std::int32_t i = 0; i < *count; ++i) mark(i);  // raw read
  });
}

// The same through read_memory, and with memory that the host allocates.
void allocates() {
  auto* count = static_cast<std::int32_t*>(allocate(64));
  std::int32_t three = 3;
  write_memory(count + 1, &three, 4);
  run("stores", 1, [=] {
    TileInfo t = tile(count, 0, 1);
    move("tload", t, count + 1, true);
    move("tstore", t, count, false);
  });
  std::int32_t found;
  read_memory(count, &found, 4);  // host read
  run("loops", 1, [=] {
    for (std::int32_t i = 0; i < found; ++i) mark(i);
  });
}

// SetValue, then GetValue.
void sets() {
  run("sets", 1, [] {
    TileInfo t = tile(nullptr, 128, 4);
    std::int32_t seven = 7;
    write_value(t, 2, &seven, 4);
    mark(value(t, 2));
  });
}

// A kernel that is its own entry, and its cores.
void cores(std::int32_t* in, float scale, long n) {
  Operand operands[] = {Operand::of(static_cast<const void*>(in + block_idx())), Operand::of(scale), Operand::of(n),
                        Operand::of(block_num()), Operand::of(subblock_idx()), Operand::of(subblock_num()),
                        Operand::of(on_cube()), Operand::of(on_vector())};
  call("see", operands, 8);
}
}

namespace ns {
template <typename T, int N>
void __attribute__((noinline)) helper(T* data) {
  Operand operands[] = {Operand::of(static_cast<const void*>(data))};
  Modifier modifiers[] = {{"n", nullptr, N}, {"mode", "row", 0}};
  call("see", operands, 1, modifiers, 2);  // inner
}

template <typename T>
void entry(T* data) {
  run("kernel", 1, [=] {
    helper<T, 3>(data);   // first
    helper<T, -1>(data);  // second
  });
}
template void entry<float>(float*);
template void entry<short>(short*);
}  // namespace ns
