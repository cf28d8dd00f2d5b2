// What the device compiler knows without any include: compilers read this file before the source.
#pragma once

#include <ptokit/intrinsics.hpp>
#include <ptokit/macros.hpp>
#include <ptokit/numbers.hpp>
