// Launches of a source that is compiled with the vendor's headers.
#pragma once


#define PTOKIT_TEXT(...) PTOKIT_TEXT_OF(__VA_ARGS__)
#define PTOKIT_TEXT_OF(...) #__VA_ARGS__

namespace ptokit {

template <typename Body, typename Grid, typename... Rest>
void chevron(const char* name, Body&& body, Grid grid, Rest&&...) {
  using Plain = std::remove_reference_t<Body>;
  launch(
      name, static_cast<std::uint64_t>(grid),
      [](void* context) {
        control = 0;
        for (int memory = 0; memory < 10; ++memory) witness("memory", base_of(memory));
        (*static_cast<Plain*>(context))();
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ptokit
