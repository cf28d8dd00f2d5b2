// Launches of a source that is compiled with the vendor's headers: a block first says where its memories are.
#pragma once

namespace ptokit {

inline void begin_block() {
  control = 0;
  for (int memory = 0; memory < 10; ++memory) witness("memory", base_of(memory));
}

}  // namespace ptokit

#include <ptokit/chevron.hpp>
