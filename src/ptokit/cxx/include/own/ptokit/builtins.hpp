// What the device compiler knows without any include: compilers read this file before the source.
#pragma once

namespace ptokit {}  // with a declaration before it, no later include takes a precompiled header

#include <ptokit/intrinsics.hpp>
#include <ptokit/macros.hpp>
#include <ptokit/numbers.hpp>
