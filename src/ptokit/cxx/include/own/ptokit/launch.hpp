// Launches of a source that is compiled with the recording headers.
#pragma once

#include <ptokit/event.hpp>

namespace ptokit {

inline void begin_block() {
  ++block_serial;
  control = 0;
}

}  // namespace ptokit

#include <ptokit/chevron.hpp>
