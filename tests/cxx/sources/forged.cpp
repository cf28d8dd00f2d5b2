// Entries that forge the trace: they know where the shared memory is, and what it looks like. `before` is the number of
// bytes from its start to the on-chip memories.
#include "ptokit/recorder.hpp"

#include <cstdint>
#include <fcntl.h>
#include <initializer_list>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using ptokit::call;
using ptokit::Operand;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

namespace {

struct Control {  // as in runtime.cpp, as far as it is forged
  u64 magic, state;
  u64 definitions_at, definitions_size, definitions_used;
  u64 entries_at, entries_size, entries_used;
  u64 numbers_at, numbers_size, numbers_used;
  u64 sequence_at, sequence_size, sequence_used;
  u64 local_at[10], local_size[10];
  u64 arrays_at, heap_at, heap_size, heap_used, gap;
  u64 base, image, text_begin, text_end;
  u64 cores, subblocks, informs;
  u64 request_kind, request_call, request_address, request_bytes;
};

enum Tag : u64 { text_tag = 1, site_tag, form_tag, launch_tag, block_tag, block_end_tag, launch_end_tag, array_tag };
constexpr u64 ALL = ~0ULL;

struct Trace {
  char* base;
  Control* control;
  u64* definitions;

  explicit Trace(u64 before)
      : base(static_cast<char*>(ptokit::local(ptokit::Memory::vec, 0)) - before),
        control(reinterpret_cast<Control*>(base)),
        definitions(reinterpret_cast<u64*>(base + control->definitions_at)) {}

  u64 room() const { return control->definitions_size - control->definitions_used; }

  template <typename... Words>
  void define(u64 tag, Words... words) {
    u64 all[] = {tag | sizeof...(Words) << 32, static_cast<u64>(words)...};
    for (u64 word : all) definitions[control->definitions_used++] = word;
  }

  // Says that all went well, and ends before the recorder can put its own counts back.
  [[noreturn]] void finish() const {
    control->state = 2;
    _exit(86);
  }
};

void flag(int id) {
  Operand operands[] = {Operand::of_text("PIPE_MTE2"), Operand::of_text("PIPE_V"), Operand::of(id)};
  call("set_flag", operands, 3);
}

template <typename Body>
void launch(Body body) {
  ptokit::launch("kernel", 1, [](void* b) { (*static_cast<Body*>(b))(); }, &body);
}

// In a launch with a call: the forgery, then the end.
template <typename Forge>
void forged(u64 before, Forge forge) {
  launch([&] {
    flag(0);
    Trace trace(before);
    forge(trace);
    trace.finish();
  });
}

int pipe_of(int access) {
  for (int file = 3; file < 64; ++file) {
    struct stat about {};
    if (syscall(SYS_fstat, file, &about) == 0 && S_ISFIFO(about.st_mode) && (fcntl(file, F_GETFL) & O_ACCMODE) == access) return file;
  }
  return -1;
}

void ask(const Trace& trace) {
  char byte = 1;
  trace.control->request_kind = 2;
  if (write(pipe_of(O_WRONLY), &byte, 1) != 1 || read(pipe_of(O_RDONLY), &byte, 1) != 1) _exit(86);
}

}  // namespace

extern "C" {

void count_beyond(u64 before) {
  forged(before, [](Trace& t) { t.control->definitions_used = ALL; });
}

void count_unwritten(u64 before) {
  forged(before, [](Trace& t) { t.control->definitions_used = t.control->definitions_size; });
}

void entries_unwritten(u64 before) {
  forged(before, [](Trace& t) { t.control->entries_used = t.control->entries_size; });
}

void count_falls(u64 before) {
  forged(before, [](Trace& t) {
    ask(t);
    t.control->sequence_used = 0;
  });
}

void definitions_fall(u64 before) {
  forged(before, [](Trace& t) {
    ask(t);
    t.control->definitions_used -= 1;
  });
}

void no_kind(u64 before) {
  forged(before, [](Trace& t) { t.define(77, 1); });
}

void longer_than_the_trace(u64 before) {
  forged(before, [](Trace& t) { t.definitions[t.control->definitions_used++] = site_tag | 60ULL << 32; });
}

void long_definition(u64 before) {
  forged(before, [](Trace& t) { t.definitions[t.control->definitions_used++] = text_tag | 0xffffffffULL << 32; });
}

void endless_text(u64 before) {
  forged(before, [](Trace& t) { t.define(text_tag, ALL, 0x4141414141414141ULL); });
}

void many_texts(u64 before) {
  forged(before, [](Trace& t) { while (t.room() > 2) t.define(text_tag, 0); });
}

void many_sites(u64 before) {
  forged(before, [](Trace& t) { while (t.room() > 1) t.define(site_tag); });
}

void many_forms(u64 before) {
  forged(before, [](Trace& t) { while (t.room() > 3) t.define(form_tag, 0, 0); });
}

// Places of as many frames as fit, all unlike each other.
void full_sites(u64 before) {
  forged(before, [](Trace& t) {
    u64 address = 0x1000;
    for (int site = 0; site < 9000; ++site) {
      u64* to = t.definitions + t.control->definitions_used;
      *to++ = site_tag | 64ULL << 32;
      for (u64 k = 0; k < 64; ++k) *to++ = address++;
      t.control->definitions_used += 65;
    }
  });
}

void many_operands(u64 before) {
  forged(before, [](Trace& t) { t.define(form_tag, 0, ALL, 2, 2, 2); });
}

void many_launches(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(launch_end_tag, 0);
    while (t.room() > 6) {
      t.define(launch_tag, 0, 0, 0);
      t.define(launch_end_tag, 0);
    }
  });
}

void many_blocks(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(launch_end_tag, 0);
    t.define(launch_tag, 0, 1, 0);
    while (t.room() > 7) {
      t.define(block_tag, 0, 0, 0, t.control->sequence_used);
      t.define(block_end_tag, t.control->sequence_used);
    }
  });
}

void many_allocations(u64 before) {
  forged(before, [](Trace& t) { while (t.room() > 3) t.define(array_tag, t.control->heap_at, 1); });
}

void blocks_of_the_same_calls(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(block_tag, 0, 0, 0, 0);
  });
}

void open_blocks(u64 before) {
  forged(before, [](Trace& t) { t.define(block_tag, 0, 0, 0, t.control->sequence_used); });
}

void block_without_calls(u64 before) {
  forged(before, [](Trace& t) { t.define(block_end_tag, ALL); });
}

void block_beyond_the_grid(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(block_tag, 1, 0, 0, t.control->sequence_used);
  });
}

void call_of_itself(u64 before) {
  forged(before, [](Trace& t) {
    auto* sequence = reinterpret_cast<u32*>(t.base + t.control->sequence_at);
    sequence[t.control->sequence_used++] = 0xffffffffu;
  });
}

void entry_of_itself(u64 before) {
  forged(before, [](Trace& t) {
    auto* entries = reinterpret_cast<u64*>(t.base + t.control->entries_at);
    entries[2 * t.control->entries_used] = 1ULL << 31;
    entries[2 * t.control->entries_used + 1] = ALL;
    t.control->entries_used += 1;
  });
}

void numbers_beyond(u64 before) {
  forged(before, [](Trace& t) {
    auto* entries = reinterpret_cast<u64*>(t.base + t.control->entries_at);
    entries[2 * t.control->entries_used - 1] = ALL;
  });
}

// All calls have the same numbers.
void shared_numbers(u64 before) {
  forged(before, [](Trace& t) {
    auto* entries = reinterpret_cast<u64*>(t.base + t.control->entries_at);
    for (u64 used = t.control->entries_used; t.control->entries_used < 2 * used; ++t.control->entries_used) {
      u64* last = entries + 2 * t.control->entries_used;
      last[0] = last[-2];
      last[1] = last[-1];
    }
  });
}

void call_with_many_operands(u64 before) {
  forged(before, [](Trace& t) {
    const u64 count = 65;
    t.definitions[t.control->definitions_used++] = form_tag | (2 + count) << 32;
    t.definitions[t.control->definitions_used++] = 0;
    t.definitions[t.control->definitions_used++] = count;
    for (u64 k = 0; k < count; ++k) t.definitions[t.control->definitions_used++] = 2 | 9 << 8;
  });
}

// Forms of calls on tiles that are all unlike each other.
void many_parts(u64 before) {
  forged(before, [](Trace& t) {
    const u64 count = 64;
    while (t.room() > 3 + 6 * count) {
      t.definitions[t.control->definitions_used++] = form_tag | (2 + 6 * count) << 32;
      t.definitions[t.control->definitions_used++] = 0;
      t.definitions[t.control->definitions_used++] = count;
      for (u64 k = 0; k < count; ++k) {
        for (u64 word : {0ULL, t.control->definitions_used * 1ULL, 1 | 1ULL << 32, 1 | 1ULL << 32, 0ULL, 0ULL}) {
          t.definitions[t.control->definitions_used++] = word;
        }
      }
    }
  });
}

void launch_in_launch(u64 before) {
  forged(before, [](Trace& t) { t.define(launch_tag, 0, 1, 0); });
}

void forged_grid(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(launch_end_tag, 0);
    t.define(launch_tag, 0, ALL, 0);
  });
}

void grid_without_blocks(u64 before) {
  forged(before, [](Trace& t) {
    t.define(block_end_tag, t.control->sequence_used);
    t.define(launch_end_tag, 0);
    t.define(launch_tag, 0, (1ULL << 31) - 1, 0);
    t.define(block_tag, 0, 0, 0, t.control->sequence_used);
    t.define(block_end_tag, t.control->sequence_used);
    t.define(launch_end_tag, 0);
  });
}

void huge_grid(u64) {
  ptokit::launch("kernel", ALL, [](void*) { flag(0); }, nullptr);  // grid
}

void no_request_for_a_call(u64 before) {
  forged(before, [](Trace& t) {
    t.control->request_call = ALL;
    t.control->request_kind = 1;
    char byte = 1;
    if (write(pipe_of(O_WRONLY), &byte, 1) != 1) _exit(86);
    while (read(pipe_of(O_RDONLY), &byte, 1) == 1) {}
  });
}

// Asks without an end, and reads the answers.
void asks(u64 before) {
  forged(before, [](Trace& t) {
    for (;;) ask(t);
  });
}

// Asks without an end, and does not wait for the answers.
void floods(u64 before) {
  forged(before, [](Trace&) {
    char bytes[4096] = {};
    while (write(pipe_of(O_WRONLY), bytes, sizeof bytes) > 0) {}
  });
}

// The same, one by one: the answers fill the pipe.
void trickles(u64 before) {
  forged(before, [](Trace& t) {
    char byte = 1;
    t.control->request_kind = 2;
    while (write(pipe_of(O_WRONLY), &byte, 1) > 0) usleep(0);
  });
}

// Tiles without an address that no memory has, and a value of one.
void huge_tile(u64) {
  launch([] {
    static char objects[2];
    ptokit::TileInfo tile{};
    tile.object = objects;
    tile.rows = tile.cols = tile.valid_rows = tile.valid_cols = 1 << 16;
    Operand operands[] = {Operand::of(tile), Operand::of(1.0f)};
    call("texpands", operands, 2);
    float value = 0;
    ptokit::read_value(tile, 7, &value, sizeof value);
    flag(value == 0 ? 1 : 2);
  });
}

// Many tiles without an address.
void many_tiles(u64) {
  launch([] {
    ptokit::TileInfo tile{};
    tile.rows = tile.valid_rows = 512;
    tile.cols = tile.valid_cols = 512;
    for (u64 number = 1; number < 1000; ++number) {
      tile.object = reinterpret_cast<void*>(number << 20);
      Operand operands[] = {Operand::of(tile), Operand::of(1.0f)};
      call("texpands", operands, 2);
    }
    float value = 0;
    ptokit::read_value(tile, 7, &value, sizeof value);
    flag(value == 0 ? 1 : 2);
  });
}

// As many calls unlike each other as the recorder takes.
void distinct(u64) {
  launch([] {
    for (int number = 0;; ++number) flag(number);
  });
}

// Numbers of loops and calls at the ends of their types.
void huge_numbers(u64) {
  launch([] {
    for (u64 number : std::initializer_list<u64>{0, 1ULL << 31, 1ULL << 62, ALL - 1, ALL}) {
      Operand operands[] = {Operand::of_text("PIPE_MTE2"), Operand::of_text("PIPE_V"), Operand::of(number)};
      call("set_flag", operands, 3);
    }
  });
}
}
