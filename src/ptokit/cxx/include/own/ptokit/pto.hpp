// The whole public surface for kernels.
#pragma once

#include <ptokit/comm.hpp>
#include <ptokit/constants.hpp>
#include <ptokit/event.hpp>
#include <ptokit/instructions.hpp>
#include <ptokit/launch.hpp>
#include <ptokit/pipe.hpp>
#include <ptokit/image.hpp>
#include <ptokit/places.hpp>
#include <ptokit/simt.hpp>
#include <ptokit/sync.hpp>
