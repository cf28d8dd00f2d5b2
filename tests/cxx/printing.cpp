// Prints what a library of a kernel calls, and runs one of its entries: `printing ENTRY`.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <ptokit/entry.hpp>

namespace {
const char* const dtypes[] = {"f16", "bf16", "f32", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f64",
                              "f8e4m3", "f8e5m2", "hif8", "f4e2m1", "f4e1m2", "f8e8m0", "i4", "bool"};
const char* const memories[] = {"vec", "mat", "left", "right", "acc", "bias", "scaling", "scale_left", "scale_right", "ctrl"};
std::uint64_t block = 0, blocks = 1;
alignas(64) unsigned char local_memory[10][1 << 20];
alignas(64) unsigned char arrays[16][1 << 16];

const char* dtype(ptokit::DType type) { return dtypes[static_cast<int>(type)]; }

void print(const ptokit::TileInfo& tile) {
  std::printf(" %s:%s", memories[static_cast<int>(tile.memory)], dtype(tile.dtype));
  std::printf("[%dx%d of %dx%d]", tile.valid_rows, tile.valid_cols, tile.rows, tile.cols);
  std::printf(tile.assigned ? "@%#llx" : "@?", static_cast<unsigned long long>(tile.address));
  if (tile.blayout || tile.slayout) std::printf("/%d%d/%d", tile.blayout, tile.slayout, tile.fractal);
  if (tile.pad) std::printf("/pad%d:%x", tile.pad, tile.pad_bits);
}

void print(const ptokit::GlobalInfo& global) {
  const long offset = static_cast<long>(static_cast<const unsigned char*>(global.data) - arrays[0]);
  std::printf(" gm%ld+%ld:%s(", offset >> 16, offset & 0xffff, dtype(global.dtype));
  for (int i = 0; i < 5; ++i) std::printf("%s%lld", i ? "," : "", static_cast<long long>(global.shape[i]));
  std::printf(";");
  for (int i = 0; i < 5; ++i) std::printf("%s%lld", i ? "," : "", static_cast<long long>(global.stride[i]));
  std::printf(")%d/%x", global.layout, global.dynamic);
}

void print(const ptokit::Operand& operand) {
  using Kind = ptokit::Operand::Kind;
  if (operand.kind == Kind::tile) print(operand.tile);
  else if (operand.kind == Kind::global) print(operand.global);
  else if (operand.kind == Kind::text) std::printf(" %s", operand.text);
  else if (operand.kind == Kind::pointer) std::printf(" pointer");
  else std::printf(" %s:%llx", dtype(operand.scalar.dtype), static_cast<unsigned long long>(operand.scalar.bits));
}
}  // namespace

namespace ptokit {
void call(const char* name, const Operand* operands, std::size_t count, const Modifier* modifiers, std::size_t more) {
  std::printf("%s", name);
  for (std::size_t i = 0; i < count; ++i) print(operands[i]);
  for (std::size_t i = 0; i < more; ++i) {
    if (modifiers[i].text) std::printf(" %s=%s", modifiers[i].key, modifiers[i].text);
    else std::printf(" %s=%lld", modifiers[i].key, static_cast<long long>(modifiers[i].number));
  }
  std::printf("\n");
}
std::uint64_t block_idx() { return block; }
std::uint64_t block_num() { return blocks; }
std::uint64_t subblock_idx() { return 0; }
std::uint64_t subblock_num() { return 2; }
bool on_cube() { return false; }
bool on_vector() { return true; }
void launch(const char* name, std::uint64_t grid, void (*body)(void*), void* context, const Operand*, std::size_t) {
  std::printf("launch %s %llu\n", name, static_cast<unsigned long long>(grid));
  blocks = grid;
  for (block = 0; block < grid; ++block) body(context);
  block = 0, blocks = 1;
}
void* allocate(std::size_t bytes) { return std::calloc(1, bytes); }
void release(void* data) { std::free(data); }
void* local(Memory memory, std::uint64_t address) {
  return address < sizeof(local_memory[0]) ? local_memory[static_cast<int>(memory)] + address : nullptr;
}
void read_value(const TileInfo& tile, std::uint64_t offset, void* to, std::size_t bytes) {
  std::printf("getvalue");
  print(tile);
  std::printf(" %llu\n", static_cast<unsigned long long>(offset));
  std::memcpy(to, static_cast<unsigned char*>(local(tile.memory, tile.address)) + offset * bytes, bytes);
}
void write_value(const TileInfo& tile, std::uint64_t offset, const void* from, std::size_t bytes) {
  std::printf("setvalue");
  print(tile);
  std::printf(" %llu\n", static_cast<unsigned long long>(offset));
  std::memcpy(static_cast<unsigned char*>(local(tile.memory, tile.address)) + offset * bytes, from, bytes);
}
void read_memory(const void* from, void* to, std::size_t bytes) { std::memmove(to, from, bytes); }
void write_memory(void* to, const void* from, std::size_t bytes) { std::memmove(to, from, bytes); }
void refresh(const void*, bool) {}
void fail(const char* message) {
  std::printf("failed: %s\n", message);
  std::exit(3);
}
}  // namespace ptokit

extern "C" void print_entry(const char* name) {
  for (const ptokit::Entry* entry = ptokit_entries(); entry; entry = entry->next) {
    if (std::strcmp(entry->name, name) != 0) continue;
    std::uint64_t values[16];
    for (std::uint64_t i = 0; i < entry->count; ++i) {
      const ptokit::Parameter& parameter = entry->parameters[i];
      const bool is_array = parameter.kind == ptokit::ParameterKind::pointer;
      values[i] = is_array ? reinterpret_cast<std::uintptr_t>(arrays[i]) : 2;
    }
    entry->call(values);
    std::fflush(stdout);
    return;
  }
  std::printf("no entry %s\n", name);
  std::fflush(stdout);
}
