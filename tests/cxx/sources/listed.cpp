// A library that lists its entries, as the recording headers do.
#include "ptokit/recorder.hpp"

using namespace ptokit;

namespace {

struct Entry {
  const char* name;
  const void* parameters;
  std::uint64_t count;
  void (*call)(const std::uint64_t* values);
  const Entry* next;
};

void run_launch(const std::uint64_t* values) {
  launch("kernel", 1, [](void* context) {
    auto* given = static_cast<const std::uint64_t*>(context);
    Operand operands[] = {Operand::of(reinterpret_cast<const void*>(given[0])),
                          Operand::of_bits(DType::f32, given + 1, 4)};
    call("see", operands, 2);
  }, const_cast<std::uint64_t*>(values));
}

void run_kernel(const std::uint64_t* values) {
  launch("kernel", values[0], [](void*) { call("see", nullptr, 0); }, nullptr);
}

const Entry kernel_entry{"kernel", nullptr, 2, run_kernel, nullptr};
const Entry launch_entry{"launch<float, 4>", nullptr, 2, run_launch, &kernel_entry};

}  // namespace

extern "C" const Entry* ptokit_entries() { return &launch_entry; }

#if defined(UNDEFINED)
extern int nowhere;
extern "C" int* uses_nowhere() { return &nowhere; }
#endif

#if defined(ENDLESS) || defined(CRASH)
struct Early {
  Early() {
    volatile int* volatile at = nullptr;
#if defined(CRASH)
    *at = 1;
#endif
    while (at == nullptr) {
    }
  }
} early;
#endif
