// Launches: `kernel<<<blocks, memory, stream>>>(arguments)` is rewritten to a call of `chevron`. What includes this file
// defines `ptokit::begin_block` before.
#pragma once

#include <type_traits>

#include <ptokit/recorder.hpp>

// Code as text, after macros in it have been replaced: a launch inside a macro has the name of the kernel it launches.
#define PTOKIT_TEXT(...) PTOKIT_TEXT_OF(__VA_ARGS__)
#define PTOKIT_TEXT_OF(...) #__VA_ARGS__

namespace ptokit {

template <typename Body, typename Grid, typename Memory = decltype(nullptr), typename... Rest>
void chevron(const char* name, Body&& body, Grid grid, Memory memory = {}, Rest&&...) {
  using Plain = std::remove_reference_t<Body>;
  Operand dynamic;
  if constexpr (std::is_integral_v<Memory>) dynamic = Operand::of(static_cast<std::uint64_t>(memory));
  launch(
      name, static_cast<std::uint64_t>(grid),
      [](void* context) {
        begin_block();
        (*static_cast<Plain*>(context))();
      },
      const_cast<void*>(static_cast<const void*>(&body)), &dynamic, std::is_integral_v<Memory>);
}

}  // namespace ptokit
