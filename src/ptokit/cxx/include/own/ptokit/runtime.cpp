// The recorder: runs inside the child process, together with the kernel. It writes a binary trace into memory that it
// shares with ptokit (ptokit/cxx/trace.py reads it), and asks ptokit for values through two pipes.
//
// Every distinct text, chain of calls, form of a call (all but its addresses and scalars) and call is written once; a
// call that repeats costs four bytes.
#include "ptokit/recorder.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include <csignal>
#include <cxxabi.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

namespace ptokit {
namespace {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u64 MAGIC = 0x31544f5450ULL;  // the version is part of it
constexpr int DONE = 86;                // the only exit status that the filter of system calls lets pass
constexpr std::size_t FRAMES = 64;      // of a chain of calls
constexpr std::size_t MEMORIES = 10;
constexpr std::size_t REGIONS = 4096;
constexpr std::size_t OPERANDS = 64;
constexpr std::size_t MODIFIERS = 64;
constexpr std::size_t TEXT = 4096;
constexpr u32 NONE = 0xffffffffu;

enum State : u64 { starting, running, finished, stopped };
enum Problem : u64 { no_problem, by_signal, by_exception, by_limit, by_failure, by_stack, by_grid };
enum Tag : u32 { text_tag = 1, site_tag, form_tag, launch_tag, block_tag, block_end_tag, launch_end_tag, array_tag,
                 unknown_tag, conflict_tag };
enum Reply : u64 { value_only, all_current, unknown_value };

// The first page of the shared memory. ptokit/cxx/trace.py lists the same fields in the same order.
struct Control {
  u64 magic, state;
  u64 definitions_at, definitions_size, definitions_used;  // words
  u64 entries_at, entries_size, entries_used;              // calls
  u64 numbers_at, numbers_size, numbers_used;              // words
  u64 sequence_at, sequence_size, sequence_used;           // calls
  u64 local_at[MEMORIES], local_size[MEMORIES];
  u64 arrays_at, heap_at, heap_size, heap_used, gap;  // bytes
  u64 base, image, text_begin, text_end;
  u64 cores, subblocks, informs;
  u64 request_kind, request_call, request_address, request_bytes;
  u64 reply;
  u8 value[64];
  u64 problem, number, address, frame_count;
  u64 frames[FRAMES];
  char message[1024];
  u64 most_blocks;  // of a grid
  u64 values_at, values_size, values_used;  // bytes: what scalar code and threads have stored
};

struct Area {  // of the shared memory; the sizes are kept here too, so that a wild store cannot move them
  u64* data = nullptr;
  u64 size = 0, used = 0;
};

struct Table {  // open addressing; `ids` are one more than the entry, 0 is free
  u64* keys = nullptr;
  u32* ids = nullptr;
  u64 mask = 0, used = 0;
};

struct Region {
  char* begin;
  u64 bytes;
};

Control* page_zero = nullptr;
char* base = nullptr;
u64 image = 0, text_begin = 0, text_end = 0;
int request_fd = -1, reply_fd = -1;
Area definitions, entries, numbers;
u32* sequence = nullptr;
u64 sequence_size = 0, sequence_used = 0;
Table texts, sites, forms, calls, unknowns;
u64* site_starts = nullptr;
u64* form_starts = nullptr;
u64 site_room = 0, form_room = 0;
Region regions[REGIONS];
std::size_t region_count = 0;
char* arrays_end = nullptr;
bool informs = false;
bool current = false;  // local memories and arrays hold what was recorded so far
bool dirty = false;    // an array may be out of date
bool asked = false;    // whether values have been asked for since the last instruction
bool noted = false;    // whether accesses are waiting to be recorded
bool own_code = false;  // the recorder itself accesses memory
std::vector<u64> cleaned;  // lines of the cache that hold nothing old
bool all_cleaned = false;
bool in_launch = false;
u64 now_block = 0, now_blocks = 1, now_subblock = 0, now_subblocks = 1;
bool now_cube = false;
bool asked_subblock = false, asked_subblocks = false;  // whether the kernel has asked for the number, and how many
u64 page = 4096;
alignas(16) char signal_stack[1 << 17];

struct OwnCode {
  bool before = own_code;
  OwnCode() { own_code = true; }
  ~OwnCode() { own_code = before; }
};

[[noreturn]] void leave() { _exit(DONE); }

u64 whole_pages(u64 bytes) { return (bytes + page - 1) / page * page; }

bool in_text(u64 pc) { return pc >= text_begin && pc < text_end; }

u64 plain_address(u64 pc) {
#if defined(__aarch64__)
  return pc & 0x0000ffffffffffffULL;  // without a pointer authentication code
#else
  return pc;
#endif
}

// Return addresses in the kernel's library, innermost first, by frame pointers.
std::size_t walk(const void* frame, u64* to, std::size_t room) {
  std::size_t count = 0;
  const u64* fp = static_cast<const u64*>(frame);
  while (count < room && fp != nullptr && (reinterpret_cast<u64>(fp) & 7) == 0) {
    u64 pc = plain_address(fp[1]);
    if (!in_text(pc)) break;
    to[count++] = pc - image;
    const u64* next = reinterpret_cast<const u64*>(fp[0]);
    if (next <= fp) break;
    fp = next;
  }
  return count;
}

struct Unwound {
  u64* to;
  std::size_t room, count;
};

_Unwind_Reason_Code unwound(_Unwind_Context* context, void* data) {
  auto* result = static_cast<Unwound*>(data);
  int is_next = 0;
  u64 pc = plain_address(static_cast<u64>(_Unwind_GetIPInfo(context, &is_next)));
  if (in_text(pc)) result->to[result->count++] = pc + (is_next ? 1 : 0) - image;  // as in frames_of
  return result->count < result->room ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// The same by unwind tables: from a handler, through libraries without frame pointers.
std::size_t unwind(u64* to, std::size_t room) {
  Unwound result{to, room, 0};
  _Unwind_Backtrace(unwound, &result);
  return result.count;
}

void describe(Problem problem, u64 number, u64 address, const char* message) {
  page_zero->problem = problem;
  page_zero->number = number;
  page_zero->address = address;
  std::size_t length = std::strlen(message);
  if (length >= sizeof page_zero->message) length = sizeof page_zero->message - 1;
  std::memcpy(page_zero->message, message, length);
  page_zero->message[length] = 0;
}

[[noreturn]] __attribute__((noinline)) void stop(Problem problem, u64 number, const char* message) {
  describe(problem, number, 0, message);
  page_zero->frame_count = walk(__builtin_frame_address(0), page_zero->frames, FRAMES);
  page_zero->state = stopped;
  leave();
}

// ---------------------------------------------------------------------------------------------- distinct things

u64 mix(u64 hash, u64 word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

u64 hash_words(const u64* words, std::size_t count, u64 seed) {
  for (std::size_t i = 0; i < count; ++i) seed = mix(seed, words[i]);
  return seed ? seed : 1;
}

void* room_for(void* old, u64 bytes) {
  void* grown = std::realloc(old, bytes);
  if (grown == nullptr) stop(by_limit, 0, "memory");
  return grown;
}

void grow(Table& table) {
  u64 size = table.mask ? (table.mask + 1) * 2 : 1024;
  auto* keys = static_cast<u64*>(std::calloc(size, sizeof(u64)));
  auto* ids = static_cast<u32*>(std::calloc(size, sizeof(u32)));
  if (keys == nullptr || ids == nullptr) stop(by_limit, 0, "memory");
  for (u64 i = 0; table.mask && i <= table.mask; ++i) {
    if (!table.ids[i]) continue;
    u64 slot = table.keys[i] & (size - 1);
    while (ids[slot]) slot = (slot + 1) & (size - 1);
    keys[slot] = table.keys[i];
    ids[slot] = table.ids[i];
  }
  std::free(table.keys);
  std::free(table.ids);
  table.keys = keys;
  table.ids = ids;
  table.mask = size - 1;
}

// The number of the entry with this key for which `same(number)` holds; makes it by `make()` if there is none.
template <typename Same, typename Make>
u32 interned(Table& table, u64 key, Same same, Make make) {
  if (table.used * 2 >= table.mask) grow(table);
  u64 slot = key & table.mask;
  while (table.ids[slot]) {
    if (table.keys[slot] == key && same(table.ids[slot] - 1)) return table.ids[slot] - 1;
    slot = (slot + 1) & table.mask;
  }
  make();
  table.keys[slot] = key;
  table.ids[slot] = static_cast<u32>(++table.used);
  return static_cast<u32>(table.used - 1);
}

// Appends a definition: a head of tag and length in words, then the words.
u64 define(Tag tag, const u64* words, std::size_t count) {
  if (definitions.size - definitions.used < count + 1) stop(by_limit, 0, "definitions");
  u64 at = definitions.used;
  definitions.data[at] = static_cast<u64>(tag) | static_cast<u64>(count) << 32;
  std::memcpy(definitions.data + at + 1, words, count * sizeof(u64));
  definitions.used = at + 1 + count;
  page_zero->definitions_used = definitions.used;
  return at;
}

bool equal_definition(u64 at, const u64* words, std::size_t count) {
  return definitions.data[at] >> 32 == count && !std::memcmp(definitions.data + at + 1, words, count * sizeof(u64));
}

void remember(u64*& starts, u64& room, u64 number, u64 at) {
  if (number >= room) {
    room = room ? room * 2 : 256;
    starts = static_cast<u64*>(room_for(starts, room * sizeof(u64)));
  }
  starts[number] = at;
}

u32 text_id(const char* text) {
  if (text == nullptr) return NONE;
  u64 key = reinterpret_cast<u64>(text);
  return interned(texts, mix(7, key), [](u32) { return true; }, [&] {
    u64 words[TEXT / 8 + 1] = {};
    std::size_t length = strnlen(text, TEXT);
    words[0] = length;
    std::memcpy(words + 1, text, length);
    define(text_tag, words, 1 + (length + 7) / 8);
  });
}

u32 site_id(const u64* pcs, std::size_t count) {
  u64 key = hash_words(pcs, count, 3);
  return interned(sites, key, [&](u32 number) { return equal_definition(site_starts[number], pcs, count); },
                  [&] { remember(site_starts, site_room, sites.used, define(site_tag, pcs, count)); });
}

u32 form_id(const u64* words, std::size_t count) {
  u64 key = hash_words(words, count, 5);
  return interned(forms, key, [&](u32 number) { return equal_definition(form_starts[number], words, count); },
                  [&] { remember(form_starts, form_room, forms.used, define(form_tag, words, count)); });
}

u32 call_id(u32 form, const u64* values, std::size_t count) {
  u64 head = static_cast<u64>(form) | static_cast<u64>(count) << 32;
  auto same = [&](u32 number) {
    const u64* entry = entries.data + 2 * static_cast<u64>(number);
    return entry[0] == head && !std::memcmp(numbers.data + entry[1], values, count * sizeof(u64));
  };
  return interned(calls, hash_words(values, count, head), same, [&] {
    if (entries.used == entries.size || numbers.size - numbers.used < count) stop(by_limit, 0, "distinct calls");
    entries.data[2 * entries.used] = head;
    entries.data[2 * entries.used + 1] = numbers.used;
    std::memcpy(numbers.data + numbers.used, values, count * sizeof(u64));
    numbers.used += count;
    entries.used += 1;
    page_zero->entries_used = entries.used;
    page_zero->numbers_used = numbers.used;
  });
}

// A call's form in `words` and what varies in `values`; the reader undoes it in trace.py.
struct Encoder {
  u64 words[2 + OPERANDS * 12 + MODIFIERS * 2];
  u64 values[OPERANDS];
  std::size_t word_count = 0, value_count = 0;

  void operand(const Operand& o) {
    u64* to = words + word_count;
    to[0] = static_cast<u64>(o.kind);
    word_count += 1;
    switch (o.kind) {
      case Operand::Kind::tile:
        to[1] = reinterpret_cast<u64>(o.tile.object);
        std::memcpy(to + 2, &o.tile.rows, 32);
        word_count += 5;
        values[value_count++] = o.tile.address;
        break;
      case Operand::Kind::global:
        std::memcpy(to + 1, o.global.shape, 88);
        word_count += 11;
        values[value_count++] = reinterpret_cast<u64>(o.global.data);
        break;
      case Operand::Kind::scalar:
        to[0] |= static_cast<u64>(o.scalar.dtype) << 8;
        values[value_count++] = o.scalar.bits;
        break;
      case Operand::Kind::pointer:
        values[value_count++] = reinterpret_cast<u64>(o.pointer);
        break;
      case Operand::Kind::text:
        to[0] |= static_cast<u64>(text_id(o.text)) << 32;
        break;
    }
  }
};

u32 encode(const char* name, const Operand* operands, std::size_t count, const Modifier* modifiers,
           std::size_t modifier_count, u32 site) {
  if (count > OPERANDS || modifier_count > MODIFIERS) stop(by_limit, 0, "operands");
  Encoder encoder;
  encoder.words[0] = static_cast<u64>(text_id(name)) | static_cast<u64>(site) << 32;
  encoder.words[1] = count | modifier_count << 32;
  encoder.word_count = 2;
  for (std::size_t i = 0; i < count; ++i) encoder.operand(operands[i]);
  for (std::size_t i = 0; i < modifier_count; ++i) {
    u64* to = encoder.words + encoder.word_count;
    to[0] = static_cast<u64>(text_id(modifiers[i].key)) | static_cast<u64>(text_id(modifiers[i].text)) << 32;
    to[1] = static_cast<u64>(modifiers[i].number);
    encoder.word_count += 2;
  }
  return call_id(form_id(encoder.words, encoder.word_count), encoder.values, encoder.value_count);
}

void append(u32 call) {
  if (sequence_used == sequence_size) stop(by_limit, sequence_size, "calls");
  sequence[sequence_used++] = call;
  page_zero->sequence_used = sequence_used;
}

std::size_t calls_from(const void* frame, u64* pcs);

u32 site_from(const void* frame) {
  u64 pcs[FRAMES];
  return site_id(pcs, calls_from(frame, pcs));
}

// ---------------------------------------------------------------------------------------------- values on demand

bool in_arrays(const void* at) {
  return base != nullptr && at >= base + page_zero->arrays_at && at < arrays_end;
}

void take_back();

u64 ask(u64 kind, u64 call, const void* address, std::size_t bytes) {
  const OwnCode own;
  take_back();
  page_zero->request_kind = kind;
  page_zero->request_call = call;
  page_zero->request_address = reinterpret_cast<u64>(address);
  page_zero->request_bytes = bytes;
  char byte = 1;
  if (write(request_fd, &byte, 1) != 1) leave();
  ssize_t got;
  while ((got = read(reply_fd, &byte, 1)) < 0 && errno == EINTR) {}
  if (got != 1) leave();
  if (page_zero->reply == all_current || kind == 2) {
    current = page_zero->reply == all_current;
    dirty = false;
  }
  return page_zero->reply;
}

void unknown(u32 site) {
  u64 word = site;
  interned(unknowns, mix(11, word), [](u32) { return true; }, [&] { define(unknown_tag, &word, 1); });
}

// Whether an instruction of this name may write to global memory.
bool stores(const char* name) {
  return std::strncmp(name, "tload", 5) != 0 && std::strncmp(name, "mgather", 7) != 0 &&
         std::strncmp(name, "tprefetch", 9) != 0;
}

void note_effects(const char* name, const Operand* operands, std::size_t count) {
  bool local = false, global = false;
  for (std::size_t i = 0; i < count; ++i) {
    local |= operands[i].kind == Operand::Kind::tile;
    global |= operands[i].kind == Operand::Kind::global || operands[i].kind == Operand::Kind::pointer;
  }
  if (local || global) current = asked = false;
  if (!global || !stores(name)) return;
  dirty = true;
  all_cleaned = false;
  cleaned.clear();
}

void up_to_date(u32 site, const void* at) {
  asked = true;
  if (!informs || ask(2, site, at, 0) == unknown_value) unknown(site);
  if (!informs) dirty = false;
}

// ---------------------------------------------------------------------------------------------- scalar accesses
// Loads and stores through pointers are kept until the next call, and then recorded as calls of their own: those of a
// place of the source together, as rows of bytes.

struct Access {
  u32 site;
  u32 bytes;
  char* at;
  bool direct;  // past the cache, or through one that is cleaned
};

struct Undo {  // what was there before a store: ptokit repeats the store when it executes what was recorded
  char* at;
  u32 bytes;
  char before[16];
};

struct Line {  // of 64 bytes: those that were read, and written, since the last call
  u64 read = 0, written = 0;
};

std::vector<Access> loads, stored;
std::vector<Undo> undone;
std::unordered_map<u64, Line> lines;

u64 cache_line(const void* at) { return reinterpret_cast<u64>(at) / 64; }

// The on-chip memory of an address; MEMORIES for another address.
std::size_t memory_of(const char* at) {
  for (std::size_t i = 0; i < MEMORIES; ++i) {
    const char* memory = base + page_zero->local_at[i];
    if (at >= memory && at < memory + page_zero->local_size[i]) return i;
  }
  return MEMORIES;
}

bool on_device(const char* at) {
  return page_zero != nullptr && at >= base && at < arrays_end && (in_arrays(at) || memory_of(at) < MEMORIES);
}

// Undoes stores: they are among the calls that ptokit executes next.
void take_back() {
  for (auto undo = undone.rbegin(); undo != undone.rend(); ++undo) std::memcpy(undo->at, undo->before, undo->bytes);
  undone.clear();
}

// Where what was stored is kept: `count` rows of bytes.
char* kept_values(const char* from, u64 count, u64 length, u64 pitch) {
  if (page_zero->values_size - page_zero->values_used < count * length) stop(by_limit, 0, "stored values");
  char* to = base + page_zero->values_at + page_zero->values_used;
  for (u64 row = 0; row < count; ++row) std::memcpy(to + row * length, from + row * pitch, length);
  page_zero->values_used += (count * length + 7) / 8 * 8;
  return to;
}

Operand rows_of(const char* at, u64 unit, u64 count, u64 length, u64 pitch) {
  GlobalInfo info;
  info.data = at;
  info.dtype = unit == 1 ? DType::u8 : unit == 2 ? DType::u16 : unit == 4 ? DType::u32 : DType::u64;
  info.shape[3] = static_cast<std::int64_t>(count);
  info.shape[4] = static_cast<std::int64_t>(length / unit);
  info.stride[3] = static_cast<std::int64_t>(pitch / unit);
  return Operand::of(info);
}

Operand part_of(std::size_t memory, u64 address, u64 unit, u64 length) {
  TileInfo tile{};
  tile.memory = static_cast<Memory>(memory);
  tile.dtype = unit == 1 ? DType::u8 : unit == 2 ? DType::u16 : DType::u32;
  tile.assigned = 1;
  tile.fractal = 512;
  tile.address = address;
  tile.rows = tile.valid_rows = 1;
  tile.cols = tile.valid_cols = static_cast<std::int32_t>(length / unit);
  return Operand::of(tile);
}

// Records rows of bytes that a place of the source read or wrote. Those of an on-chip memory are recorded one by one.
void record_rows(const char* name, bool writes, u32 site, char* at, u64 unit, u64 count, u64 length, u64 pitch) {
  const std::size_t memory = memory_of(at);
  if (memory < MEMORIES && count > 1) {
    for (u64 row = 0; row < count; ++row) record_rows(name, writes, site, at + row * pitch, unit, 1, length, length);
    return;
  }
  const u64 start = memory < MEMORIES ? static_cast<u64>(at - base) - page_zero->local_at[memory] : 0;
  if (memory < MEMORIES && unit > 4) unit = 4;
  while (length % unit || pitch % unit || (memory < MEMORIES ? start : reinterpret_cast<u64>(at)) % unit) unit /= 2;
  Operand operands[2] = {memory < MEMORIES ? part_of(memory, start, unit, length)
                                           : rows_of(at, unit, count, length, pitch)};
  if (writes) operands[1] = rows_of(kept_values(at, count, length, pitch), unit, count, length, length);
  append(encode(name, operands, writes ? 2 : 1, nullptr, 0, site));
}

void record_sorted(const char* plain, const char* direct, bool writes, std::vector<Access>& found) {
  std::sort(found.begin(), found.end(), [](const Access& a, const Access& b) {
    return a.site != b.site ? a.site < b.site : a.direct != b.direct ? a.direct : a.at < b.at;
  });
  struct Row {
    char* at;
    u64 bytes, unit;
  };
  std::vector<Row> rows;
  for (std::size_t i = 0; i < found.size();) {
    const u32 site = found[i].site;
    const bool is_direct = found[i].direct;
    const char* name = is_direct ? direct : plain;
    rows.clear();
    for (; i < found.size() && found[i].site == site && found[i].direct == is_direct; ++i) {
      const Access& each = found[i];
      if (rows.empty() || each.at > rows.back().at + rows.back().bytes) {
        rows.push_back({each.at, each.bytes, each.bytes});
      } else {
        rows.back().bytes = std::max<u64>(rows.back().bytes, each.at + each.bytes - rows.back().at);
        rows.back().unit = std::min<u64>(rows.back().unit, each.bytes);
      }
    }
    for (std::size_t k = 0; k < rows.size();) {
      std::size_t end = k + 1;
      const u64 pitch = end < rows.size() ? static_cast<u64>(rows[end].at - rows[k].at) : rows[k].bytes;
      while (end < rows.size() && rows[end].bytes == rows[k].bytes && rows[end].unit == rows[k].unit &&
             static_cast<u64>(rows[end].at - rows[end - 1].at) == pitch) {
        ++end;
      }
      const u64 unit = rows[k].unit >= 8 ? 8 : rows[k].unit >= 4 ? 4 : rows[k].unit >= 2 ? 2 : 1;
      record_rows(name, writes, site, rows[k].at, unit, end - k, rows[k].bytes, end - k > 1 ? pitch : rows[k].bytes);
      k = end;
    }
  }
  found.clear();
}

void record_noted(bool of_threads) {
  if (!noted) return;
  const OwnCode own;
  noted = false;
  record_sorted(of_threads ? "simt_load" : "scalar_load", "device_load", false, loads);
  record_sorted(of_threads ? "simt_store" : "scalar_store", "device_store", true, stored);
  lines.clear();
}

void record_accesses() { record_noted(false); }

bool is_new(bool writes, const char* at, u64 bytes) {
  bool found = false;
  for (const char* end = at + bytes; at < end;) {
    const u64 place = reinterpret_cast<u64>(at) & 63, here = std::min<u64>(64 - place, static_cast<u64>(end - at));
    const u64 mask = (here == 64 ? ~0ULL : (1ULL << here) - 1) << place;
    Line& line = lines[reinterpret_cast<u64>(at) >> 6];
    u64& seen = writes ? line.written : line.read;
    found |= (mask & ~(writes ? line.written : line.written | line.read)) != 0;
    seen |= mask;
    at += here;
  }
  return found;
}

bool in_region(const char* at, u64 bytes) {
  for (std::size_t i = 0; i < region_count; ++i) {
    if (at >= regions[i].begin && at + bytes <= regions[i].begin + regions[i].bytes) return true;
  }
  return false;
}

// What lies beside an array can be accessed once it is recorded: the reader says that it is outside.
void open_gap(char* at, u64 bytes) {
  if (in_region(at, bytes)) return;
  const u64 first = reinterpret_cast<u64>(at) / page * page;
  const u64 last = std::min<u64>(reinterpret_cast<u64>(at) + bytes, reinterpret_cast<u64>(arrays_end));
  mprotect(reinterpret_cast<void*>(first), whole_pages(last - first), PROT_READ | PROT_WRITE);
}

// ---------------------------------------------------------------------------------------------- threads
// The threads of a function run one after the other on stacks of their own, each up to where it waits for others. What
// two of them access without a barrier between, and not both by atomic operations, is a conflict if one of them changes
// it. Lanes of a warp also meet where their values are added.

constexpr u64 THREADS = 2048, LANES = 32, STACK = 1 << 16;
enum class Waits : std::uint8_t { no, at_barrier, at_sum, for_ever };

struct Thread {
  ucontext_t context;
  u32 number = 0, step = 0;
  Waits waits = Waits::no;
  float value = 0;
  const void* place = nullptr;  // of the sum that it waits for
  // A store that may be a conflict, until it is seen whether it changes anything.
  char* at = nullptr;
  u32 bytes = 0, site = 0, other = 0;
  bool both_write = false;
  char before[16];
};

struct Cell {  // who accessed a byte: numbers of threads, from 1 on; when: the phase and the step of the warp
  u32 writer = 0, reader = 0, other_reader = 0;
  u32 written = 0, read = 0, other_read = 0;
  bool atomic = false;
};
struct Cells {
  Cell of[64];
};

Thread* threads = nullptr;
char* stacks = nullptr;
Thread* now_thread = nullptr;
ucontext_t scheduler;
u64 invoking[FRAMES];  // the calls that lead to the threads
std::size_t invoking_count = 0;
u32 phase = 0;
bool is_atomic = false;
std::unordered_map<u64, Cells> cells;
Table conflicts;
void (*thread_body)(void*) = nullptr;
void* thread_context = nullptr;

u32 moment(const Thread& thread) { return phase << 16 | thread.step; }

// Whether nothing orders an access of another thread before one of this thread now.
bool unordered(const Thread& thread, u32 other, u32 when) {
  if (other == 0 || other == thread.number + 1 || when >> 16 != phase) return false;
  return (other - 1) / LANES != thread.number / LANES || (when & 0xffff) == thread.step;
}

void report(u32 site, const char* at, u32 thread, u32 other, bool both_write) {
  u64 words[] = {site, reinterpret_cast<u64>(at), thread, other, both_write};
  interned(conflicts, mix(13, site), [](u32) { return true; }, [&] { define(conflict_tag, words, 5); });
}

void settle(Thread& thread) {
  if (thread.bytes && std::memcmp(thread.at, thread.before, thread.bytes)) {
    report(thread.site, thread.at, thread.number, thread.other, thread.both_write);
  }
  thread.bytes = 0;
}

// The calls that lead to a frame: those of a thread begin where it was started.
std::size_t calls_from(const void* frame, u64* pcs) {
  std::size_t count = walk(frame, pcs, FRAMES);
  for (std::size_t i = 0; now_thread != nullptr && i < invoking_count && count < FRAMES; ++i) pcs[count++] = invoking[i];
  return count;
}

void threads_access(bool writes, char* at, u64 bytes, const void* frame) {
  if (now_thread == nullptr) return;
  Thread& thread = *now_thread;
  settle(thread);
  const u32 self = thread.number + 1, when = moment(thread);
  for (char* byte = at; byte < at + bytes; ++byte) {
    Cell& cell = cells[reinterpret_cast<u64>(byte) >> 6].of[reinterpret_cast<u64>(byte) & 63];
    const bool met = unordered(thread, cell.writer, cell.written) && !(is_atomic && cell.atomic);
    u32 other = met ? cell.writer : 0;
    if (writes && !other && !(is_atomic && cell.atomic)) {
      if (unordered(thread, cell.reader, cell.read)) other = cell.reader;
      else if (unordered(thread, cell.other_reader, cell.other_read)) other = cell.other_reader;
    }
    if (other && !writes) {
      report(site_from(frame), byte, thread.number, other - 1, false);
    } else if (other && !thread.bytes) {
      thread.at = at;
      thread.bytes = static_cast<u32>(std::min<u64>(bytes, sizeof thread.before));
      thread.site = site_from(frame);
      thread.other = other - 1;
      thread.both_write = met;
      std::memcpy(thread.before, at, thread.bytes);
    }
    if (writes) {
      const bool plain_before = cell.writer == self && cell.written == when && !cell.atomic;
      cell.atomic = is_atomic && !plain_before;
      cell.writer = self;
      cell.written = when;
    } else if (!is_atomic) {
      if (cell.reader != self) {
        cell.other_reader = cell.reader;
        cell.other_read = cell.read;
      }
      cell.reader = self;
      cell.read = when;
    }
  }
}

void suspend(Waits waits) {
  Thread& thread = *now_thread;
  {
    const OwnCode own;
    settle(thread);
  }
  thread.waits = waits;
  swapcontext(&thread.context, &scheduler);
}

void thread_main() {
  thread_body(thread_context);
  suspend(Waits::for_ever);
}

void enter(Thread& thread) {
  thread_index = {thread.number % thread_count.x, thread.number / thread_count.x % thread_count.y,
                  thread.number / thread_count.x / thread_count.y};
  now_thread = &thread;
  swapcontext(&scheduler, &thread.context);
  now_thread = nullptr;
}

// Adds the values of lanes that wait at one place. Returns whether there are any.
bool add_lanes(Thread* first, Thread* last) {
  const void* place = nullptr;
  float sum = 0;
  for (Thread* lane = first; lane < last; ++lane) {
    if (lane->waits != Waits::at_sum || (place && lane->place != place)) continue;
    place = lane->place;
    sum += lane->value;
  }
  for (Thread* lane = first; place && lane < last; ++lane) {
    if (lane->waits != Waits::at_sum || lane->place != place) continue;
    lane->value = sum;
    lane->waits = Waits::no;
    if (++lane->step > 0xffff) stop(by_limit, 0, "sums of a warp");
  }
  return place != nullptr;
}

// Runs the lanes of a warp until none can go on.
void run_warp(Thread* first, Thread* last) {
  do {
    for (Thread* lane = first; lane < last; ++lane) {
      if (lane->waits == Waits::no) enter(*lane);
    }
  } while (add_lanes(first, last));
}

bool pass_barrier(u64 count) {
  bool any = false;
  for (Thread* each = threads; each < threads + count; ++each) {
    if (each->waits != Waits::at_barrier) continue;
    each->waits = Waits::no;
    each->step = 0;
    any = true;
  }
  if (any && ++phase > 0xffff) stop(by_limit, 0, "barriers of threads");
  return any;
}

// A load or store of scalar code, before it happens.
void access(bool writes, const void* address, u64 bytes, const void* frame, bool direct = false) {
  char* at = static_cast<char*>(const_cast<void*>(address));
  if (own_code || !in_launch || bytes == 0 || !on_device(at)) return;
  const OwnCode own;
  if (!informs) {
    const Operand operands[] = {Operand::of(address), Operand::of(bytes)};
    append(encode(writes ? "store" : "load", operands, 2, nullptr, 0, site_from(frame)));
    return;
  }
  if (!asked && (in_arrays(at) ? dirty : !current) && !writes) {
    if (!stored.empty()) record_accesses();
    up_to_date(site_from(frame), at);
  }
  if (in_arrays(at)) open_gap(at, bytes);
  threads_access(writes, at, bytes, frame);
  if (!is_new(writes, at, bytes)) return;
  const u32 site = site_from(frame);
  noted = true;
  direct |= !writes && (all_cleaned || std::find(cleaned.begin(), cleaned.end(), cache_line(at)) != cleaned.end());
  (writes ? stored : loads).push_back({site, static_cast<u32>(bytes), at, direct && now_thread == nullptr});
  for (u64 done = 0; writes && done < bytes; done += sizeof Undo::before) {
    Undo undo{at + done, static_cast<u32>(std::min<u64>(bytes - done, sizeof Undo::before)), {}};
    std::memcpy(undo.before, undo.at, undo.bytes);
    undone.push_back(undo);
  }
}
// ---------------------------------------------------------------------------------------------- signals

void registers(const ucontext_t* context, u64& pc, u64& fp, u64& sp, u64& back) {
#if defined(__aarch64__)
  pc = context->uc_mcontext.pc;
  fp = context->uc_mcontext.regs[29];
  sp = context->uc_mcontext.sp;
  back = context->uc_mcontext.regs[30];
#elif defined(__x86_64__)
  pc = static_cast<u64>(context->uc_mcontext.gregs[REG_RIP]);
  fp = static_cast<u64>(context->uc_mcontext.gregs[REG_RBP]);
  sp = static_cast<u64>(context->uc_mcontext.gregs[REG_RSP]);
  back = in_text(pc) ? 0 : *reinterpret_cast<const u64*>(sp);  // of a wild jump
#endif
}

std::size_t frames_of(const ucontext_t* context, u64* to, std::size_t room) {
  u64 pc = 0, fp = 0, sp = 0, back = 0;
  registers(context, pc, fp, sp, back);
  std::size_t count = 0;
  if (in_text(pc)) {
    to[count++] = pc + 1 - image;  // the reader looks before a return address
  } else if (in_text(plain_address(back))) {
    to[count++] = plain_address(back) - image;
  } else {
    return 0;
  }
  return count + walk(reinterpret_cast<const void*>(fp), to + count, room - count);
}

bool overflow(int number, const ucontext_t* context, u64 address) {
  u64 pc = 0, fp = 0, sp = 0, back = 0;
  registers(context, pc, fp, sp, back);
  return number == SIGSEGV && address + (1 << 16) > sp && address < sp + (1 << 16);
}

void on_signal(int number, siginfo_t* info, void* data) {
  auto* context = static_cast<ucontext_t*>(data);
  if (page_zero->state == stopped) leave();  // a second fault while the first one is described
  u64 address = number == SIGSYS ? static_cast<u64>(info->si_syscall) : reinterpret_cast<u64>(info->si_addr);
  describe(overflow(number, context, address) ? by_stack : by_signal, static_cast<u64>(number), address, "");
  page_zero->frame_count = 0;
  page_zero->state = stopped;
  // The time limit may end a function that has no frame yet: its caller is in the unwind tables only.
  if (number != SIGXCPU) page_zero->frame_count = frames_of(context, page_zero->frames, FRAMES);
  if (page_zero->frame_count == 0) page_zero->frame_count = unwind(page_zero->frames, FRAMES);
  leave();
}

[[noreturn]] void on_terminate() {
  char message[1024] = "std::terminate was called";
#if defined(__cpp_exceptions)
  if (std::type_info* type = abi::__cxa_current_exception_type()) {
    int status = 0;
    char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    const char* what = "";
    try {
      throw;
    } catch (const std::exception& error) {
      std::snprintf(message, sizeof message, "%s: %s", name ? name : type->name(), error.what());
      what = nullptr;
    } catch (...) {
    }
    if (what != nullptr) std::snprintf(message, sizeof message, "%s", name ? name : type->name());
  }
#endif
  describe(by_exception, 0, 0, message);
  page_zero->frame_count = 0;
  page_zero->state = stopped;
  page_zero->frame_count = unwind(page_zero->frames, FRAMES);
  leave();
}

void watch_signals() {
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU}) {
    sigaction(number, &action, nullptr);
  }
  std::set_terminate(on_terminate);
}

int find_image(dl_phdr_info* info, std::size_t, void*) {
  u64 here = reinterpret_cast<u64>(&find_image);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    u64 begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || here < begin || here >= begin + header.p_memsz) continue;
    image = info->dlpi_addr;
    text_begin = begin;
    text_end = begin + header.p_memsz;
    return 1;
  }
  return 0;
}

// The kernels that are launched with one vector core for each cube core. Constructors of the source state them.
constexpr u64 MOST_STATED = 256;
const char* stated[MOST_STATED];
u64 stated_count = 0;

// Whether a launched kernel, `ns::name<types>`, is one of them, also if its own name has the ending of a core's code.
bool has_one_vector(const char* kernel) {
  std::string_view name(kernel);
  name = name.substr(0, name.find('<'));
  while (name.ends_with(' ')) name.remove_suffix(1);
  name = name.substr(name.rfind(':') + 1);
  for (u64 k = 0; k < stated_count; ++k) {
    std::string_view own(stated[k]);
    if (own.empty() || own == name || (own.starts_with(name) && own.substr(name.size()).starts_with("_mix_ai"))) return true;
  }
  return false;
}

void run_core(void (*body)(void*), void* context, u64 block, bool cube, u64 subblock, u64 subblocks) {
  now_block = block;
  now_cube = cube;
  now_subblock = subblock;
  now_subblocks = subblocks;
  current = asked = false;
  u64 words[] = {block, cube, subblock, sequence_used};
  define(block_tag, words, 4);
  body(context);
  record_accesses();
  define(block_end_tag, &sequence_used, 1);
}

}  // namespace

__attribute__((noinline)) void call(const char* name, const Operand* operands, std::size_t count,
                                    const Modifier* modifiers, std::size_t modifier_count) {
  if (page_zero == nullptr) return;
  record_accesses();
  u32 site = site_from(__builtin_frame_address(0));
  append(encode(name, operands, count, modifiers, modifier_count, site));
  note_effects(name, operands, count);
}

std::uint64_t block_idx() { return now_block; }
std::uint64_t block_num() { return now_blocks; }
std::uint64_t subblock_idx() {
  asked_subblock = true;
  return now_subblock;
}
std::uint64_t subblock_num() {
  asked_subblocks = true;
  return now_subblocks;
}
bool state_vectors(const char* kernel, std::uint64_t count) {
  if (count == 1 && stated_count < MOST_STATED) stated[stated_count++] = kernel;
  return true;
}
bool pairs_vectors() { return now_subblocks > 1; }
bool on_cube() { return now_cube; }
bool on_vector() { return !now_cube; }

__attribute__((noinline)) void launch(const char* name, std::uint64_t grid, void (*body)(void*), void* context,
                                      const Operand* arguments, std::size_t count) {
  if (page_zero == nullptr) return;
  if (in_launch) stop(by_failure, 0, "a kernel launches a kernel");
  if (grid > page_zero->most_blocks) stop(by_grid, grid, "");
  in_launch = true;
  u32 site = site_from(__builtin_frame_address(0));
  u64 words[] = {encode(name, arguments, count, nullptr, 0, site), grid, sequence_used};
  define(launch_tag, words, 3);
  now_blocks = grid;
  asked_subblock = asked_subblocks = false;
  u64 cores = page_zero->cores, subblocks = has_one_vector(name) ? 1 : page_zero->subblocks;
  for (u64 block = 0; block < grid; ++block) {
    if (cores & 2) run_core(body, context, block, true, 0, 1);
    if (cores & 1) {
      // Without a number, the second one runs if the first asks which one it is, and not how many there are.
      for (u64 k = 0; subblocks != 0 ? k < subblocks : k == 0 || (k == 1 && asked_subblock && !asked_subblocks); ++k) {
        run_core(body, context, block, false, k, subblocks == 0 ? 1 : subblocks);
      }
    }
  }
  define(launch_end_tag, &sequence_used, 1);
  in_launch = false;
  now_block = now_subblock = 0;
  now_blocks = now_subblocks = 1;
  now_cube = false;
}

Index3 thread_index, thread_count{1, 1, 1};

__attribute__((noinline)) void run_threads(Index3 count, void (*body)(void*), void* context) {
  const u64 number = static_cast<u64>(count.x) * count.y * count.z;
  if (page_zero == nullptr) return;
  if (count.x > THREADS || count.y > THREADS || count.z > THREADS || number > THREADS) {
    stop(by_failure, 0, "a function of more than 2,048 threads");
  }
  if (now_thread != nullptr) stop(by_failure, 0, "a thread starts threads");
  record_accesses();
  invoking_count = walk(__builtin_frame_address(0), invoking, FRAMES);
  if (informs && !asked && (!current || dirty)) up_to_date(site_id(invoking, invoking_count), base + page_zero->local_at[0]);
  if (threads == nullptr) {
    threads = new Thread[THREADS];
    void* made = mmap(nullptr, THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) stop(by_limit, 0, "memory");
    stacks = static_cast<char*>(made);
    for (u64 k = 0; k < THREADS; ++k) mprotect(stacks + k * STACK, page, PROT_NONE);
  }
  thread_count = count;
  thread_body = body;
  thread_context = context;
  phase = 0;
  for (u64 k = 0; k < number; ++k) {
    Thread& thread = threads[k];
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stacks + k * STACK + page;
    thread.context.uc_stack.ss_size = STACK - page;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, thread_main, 0);
    thread.number = static_cast<u32>(k);
    thread.step = thread.bytes = 0;
    thread.waits = Waits::no;
  }
  do {
    for (u64 k = 0; k < number; k += LANES) run_warp(threads + k, threads + std::min(k + LANES, number));
  } while (pass_barrier(number));
  cells.clear();
  thread_index = {};
  thread_count = {1, 1, 1};
  record_noted(true);
}

__attribute__((noinline)) void wait_for_threads() {
  if (now_thread != nullptr) suspend(Waits::at_barrier);
}

__attribute__((noinline)) float sum_of_warp(float value) {
  if (now_thread == nullptr) return value;
  now_thread->value = value;
  now_thread->place = __builtin_return_address(0);
  suspend(Waits::at_sum);
  return now_thread->value;
}

Atomic::Atomic() { is_atomic = true; }
Atomic::~Atomic() { is_atomic = false; }

void* allocate(std::size_t bytes) {
  if (page_zero == nullptr) return std::calloc(1, bytes);
  u64 whole = whole_pages(bytes) + page_zero->gap;
  if (bytes > whole || whole > page_zero->heap_size - page_zero->heap_used || region_count == REGIONS) {
    stop(by_limit, bytes, "device memory");
  }
  char* data = base + page_zero->heap_at + page_zero->heap_used;
  page_zero->heap_used += whole;
  arrays_end = data + whole;
  regions[region_count++] = {data, bytes};
  mprotect(data, whole_pages(bytes), PROT_READ | PROT_WRITE);
  u64 words[] = {static_cast<u64>(data - base), bytes};
  define(array_tag, words, 2);
  return data;
}

void release(void*) {}  // device memory stays valid until the recording ends

void* local(Memory memory, std::uint64_t address) {
  auto which = static_cast<std::size_t>(memory);
  if (page_zero == nullptr || which >= MEMORIES || address >= page_zero->local_size[which]) return nullptr;
  return base + page_zero->local_at[which] + address;
}

namespace {

// The bytes of an element in the memory that backs its tile; null if they are outside.
void* element(const TileInfo& tile, u64 offset, std::size_t bytes) {
  if (!tile.assigned || offset > (1ULL << 40)) return nullptr;
  u64 last = tile.address + offset * bytes + bytes - 1;
  return local(tile.memory, last) ? local(tile.memory, last - bytes + 1) : nullptr;
}

}  // namespace

__attribute__((noinline)) void read_value(const TileInfo& tile, std::uint64_t offset, void* to, std::size_t bytes) {
  std::memset(to, 0, bytes);
  if (page_zero == nullptr) return;
  record_accesses();
  const OwnCode own;
  u32 site = site_from(__builtin_frame_address(0));
  Operand operands[] = {Operand::of(tile), Operand::of(offset)};
  u32 id = encode("getvalue", operands, 2, nullptr, 0, site);
  append(id);
  void* backing = element(tile, offset, bytes);
  u64 reply = current && backing ? all_current : informs ? ask(1, id, nullptr, bytes) : unknown_value;
  if (reply == unknown_value) unknown(site);
  else if (reply == value_only && bytes <= sizeof page_zero->value) std::memcpy(to, page_zero->value, bytes);
  else if (backing) std::memcpy(to, backing, bytes);
}

__attribute__((noinline)) void write_value(const TileInfo& tile, std::uint64_t offset, const void* from,
                                           std::size_t bytes) {
  if (page_zero == nullptr) return;
  record_accesses();
  const OwnCode own;
  Operand operands[] = {Operand::of(tile), Operand::of(offset), Operand::of_bits(tile.dtype, from, bytes)};
  append(encode("setvalue", operands, 3, nullptr, 0, site_from(__builtin_frame_address(0))));
  if (void* backing = element(tile, offset, bytes)) std::memcpy(backing, from, bytes);
  else current = false;
}

__attribute__((noinline)) void refresh(const void* address, bool whole) {
  if (page_zero == nullptr || (!whole && !in_arrays(address))) return;
  for (Access& each : stored) each.direct |= whole || cache_line(each.at) == cache_line(address);
  record_accesses();
  all_cleaned |= whole;
  if (!whole) cleaned.push_back(cache_line(address));
  if (dirty) up_to_date(site_from(__builtin_frame_address(0)), regions[0].begin);
}

__attribute__((noinline)) void read_memory(const void* from, void* to, std::size_t bytes) {
  if (!in_launch) refresh(from, true);
  access(false, from, bytes, __builtin_frame_address(0), true);
  const OwnCode own;
  std::memcpy(to, from, bytes);
}

__attribute__((noinline)) void write_memory(void* to, const void* from, std::size_t bytes) {
  if (!in_launch) refresh(to, true);
  access(true, to, bytes, __builtin_frame_address(0), true);
  const OwnCode own;
  std::memcpy(to, from, bytes);
}

[[noreturn]] __attribute__((noinline)) void fail(const char* message) {
  if (page_zero == nullptr) std::abort();
  describe(by_failure, 0, 0, message);
  page_zero->frame_count = walk(__builtin_frame_address(0), page_zero->frames, FRAMES);
  page_zero->state = stopped;
  leave();
}

// Maps the shared memory so that the lowest 32 bits of a pointer into an on-chip memory are no address in it.
void* map_apart(int file, u64 size) {
  constexpr u64 apart = 1u << 26;
  char* mapped = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (mapped == MAP_FAILED) return mapped;
  const u64 memories = reinterpret_cast<u64>(mapped) + reinterpret_cast<Control*>(mapped)->local_at[0];
  if (static_cast<u32>(memories + apart) >= 2 * apart) return mapped;
  void* other = mmap(mapped - 4 * apart, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (other == MAP_FAILED) return mapped;
  munmap(mapped, size);
  return other;
}

}  // namespace ptokit

// ------------------------------------------------------------------------------------------- called by child_main.py

extern "C" {

// Maps the shared memory and starts to record. Returns 0, or the number of an error.
int ptokit_start(int memory, std::uint64_t size, int request, int reply) {
  using namespace ptokit;
  void* mapped = map_apart(memory, size);
  if (mapped == MAP_FAILED) return errno;
  close(memory);
  auto* found = static_cast<Control*>(mapped);
  if (found->magic != MAGIC || found->arrays_at >= size) return EINVAL;
  base = static_cast<char*>(mapped);
  page = static_cast<u64>(sysconf(_SC_PAGESIZE));
  mprotect(base + found->arrays_at, size - found->arrays_at, PROT_NONE);
  dl_iterate_phdr(find_image, nullptr);
  definitions = {reinterpret_cast<u64*>(base + found->definitions_at), found->definitions_size, 0};
  entries = {reinterpret_cast<u64*>(base + found->entries_at), found->entries_size, 0};
  numbers = {reinterpret_cast<u64*>(base + found->numbers_at), found->numbers_size, 0};
  sequence = reinterpret_cast<u32*>(base + found->sequence_at);
  sequence_size = found->sequence_size;
  informs = found->informs != 0;
  request_fd = request;
  reply_fd = reply;
  arrays_end = base + found->heap_at;
  found->base = reinterpret_cast<u64>(base);
  found->image = image;
  found->text_begin = text_begin;
  found->text_end = text_end;
  page_zero = found;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  watch_signals();
  page_zero->state = running;
  return 0;
}

// An array of the user, at an offset of the shared memory.
void* ptokit_array(std::uint64_t offset, std::uint64_t bytes) {
  using namespace ptokit;
  if (region_count == REGIONS) stop(by_limit, 0, "arrays");
  char* data = base + offset;
  regions[region_count++] = {data, bytes};
  mprotect(data, whole_pages(bytes), PROT_READ | PROT_WRITE);
  return data;
}

void ptokit_launch(const char* name, std::uint64_t grid, void (*body)(void*)) {
  ptokit::launch(name, grid, body, nullptr);
}

void ptokit_finish() {
  std::fflush(nullptr);
  ptokit::page_zero->state = ptokit::finished;
  ptokit::leave();
}
}

// Compilers call these before each load and store with -fsanitize=thread.
#define PTOKIT_ACCESS(NAME, BYTES)                                                                                   \
  void __tsan_read##NAME(const void* at) { ptokit::access(false, at, BYTES, __builtin_frame_address(0)); }           \
  void __tsan_write##NAME(const void* at) { ptokit::access(true, at, BYTES, __builtin_frame_address(0)); }           \
  void __tsan_unaligned_read##NAME(const void* at) { ptokit::access(false, at, BYTES, __builtin_frame_address(0)); } \
  void __tsan_unaligned_write##NAME(const void* at) { ptokit::access(true, at, BYTES, __builtin_frame_address(0)); }
// And these in the place of atomic operations, which the headers of compilers use for static variables.
#define PTOKIT_ATOMIC_UPDATE(BITS, T, NAME)                                                      \
  T __tsan_atomic##BITS##_fetch_##NAME(volatile T* at, T value, int) {                           \
    PTOKIT_OWN_ACCESS(at, BITS / 8)                                                              \
    return __atomic_fetch_##NAME(at, value, __ATOMIC_SEQ_CST);                                   \
  }
#define PTOKIT_OWN_ACCESS(AT, BYTES)                                                             \
  void* plain = const_cast<void*>(static_cast<const volatile void*>(AT));                        \
  ptokit::access(false, plain, BYTES, __builtin_frame_address(0));                               \
  ptokit::access(true, plain, BYTES, __builtin_frame_address(0));
#define PTOKIT_ATOMICS(BITS, T)                                                                  \
  T __tsan_atomic##BITS##_load(const volatile T* at, int) {                                      \
    ptokit::access(false, const_cast<const T*>(at), BITS / 8, __builtin_frame_address(0));       \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                \
  }                                                                                              \
  void __tsan_atomic##BITS##_store(volatile T* at, T value, int) {                               \
    ptokit::access(true, const_cast<T*>(at), BITS / 8, __builtin_frame_address(0));              \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                               \
  }                                                                                              \
  T __tsan_atomic##BITS##_exchange(volatile T* at, T value, int) {                               \
    PTOKIT_OWN_ACCESS(at, BITS / 8)                                                              \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                     \
  }                                                                                              \
  PTOKIT_ATOMIC_UPDATE(BITS, T, add)                                                             \
  PTOKIT_ATOMIC_UPDATE(BITS, T, sub)                                                             \
  PTOKIT_ATOMIC_UPDATE(BITS, T, and)                                                             \
  PTOKIT_ATOMIC_UPDATE(BITS, T, or)                                                              \
  PTOKIT_ATOMIC_UPDATE(BITS, T, xor)                                                             \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* at, T* expected, T value, int, int) { \
    PTOKIT_OWN_ACCESS(at, BITS / 8)                                                              \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                              \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* at, T* expected, T value, int, int) { \
    PTOKIT_OWN_ACCESS(at, BITS / 8)                                                              \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }

extern "C" {
PTOKIT_ACCESS(1, 1)
PTOKIT_ACCESS(2, 2)
PTOKIT_ACCESS(4, 4)
PTOKIT_ACCESS(8, 8)
PTOKIT_ACCESS(16, 16)
void __tsan_read_range(const void* at, std::size_t bytes) {
  ptokit::access(false, at, bytes, __builtin_frame_address(0));
}
void __tsan_write_range(const void* at, std::size_t bytes) {
  ptokit::access(true, at, bytes, __builtin_frame_address(0));
}
PTOKIT_ATOMICS(8, std::uint8_t)
PTOKIT_ATOMICS(16, std::uint16_t)
PTOKIT_ATOMICS(32, std::uint32_t)
PTOKIT_ATOMICS(64, std::uint64_t)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

// Copies and fills of the C library, which linkers name so; some compilers have names of their own.
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int value, std::size_t bytes);
#define PTOKIT_COPY(NAME, REAL)                                                      \
  void* NAME(void* to, const void* from, std::size_t bytes) {                        \
    ptokit::access(false, from, bytes, __builtin_frame_address(0));                  \
    ptokit::access(true, to, bytes, __builtin_frame_address(0));                     \
    return REAL(to, from, bytes);                                                    \
  }
#define PTOKIT_FILL(NAME)                                                            \
  void* NAME(void* to, int value, std::size_t bytes) {                               \
    ptokit::access(true, to, bytes, __builtin_frame_address(0));                     \
    return __real_memset(to, value, bytes);                                          \
  }
PTOKIT_COPY(__wrap_memcpy, __real_memcpy)
PTOKIT_COPY(__wrap_memmove, __real_memmove)
PTOKIT_FILL(__wrap_memset)
PTOKIT_COPY(__tsan_memcpy, __real_memcpy)
PTOKIT_COPY(__tsan_memmove, __real_memmove)
PTOKIT_FILL(__tsan_memset)
}
