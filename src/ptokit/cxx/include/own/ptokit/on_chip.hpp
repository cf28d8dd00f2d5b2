// Casts `(__ubuf__ T*)x`, which sources have as `OnChip<memory, T*>{} ->* x`: the operator binds as a cast does.
#pragma once

#include <ptokit/recorder.hpp>

namespace ptokit {

template <Memory MEMORY, typename Pointer, typename Value>
Pointer on_chip(Value value);

template <Memory MEMORY, typename Pointer>
struct OnChip {
  struct Pointee {
    template <typename Value>
    friend auto& operator->*(Pointee, Value value) {
      return *on_chip<MEMORY, Pointer>(value);
    }
  };
  Pointee operator*() const { return {}; }
  template <typename Value>
  friend auto operator->*(OnChip, Value value) {
    return on_chip<MEMORY, Pointer>(value);
  }
};

}  // namespace ptokit
