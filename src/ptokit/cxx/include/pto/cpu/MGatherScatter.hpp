// Written by ptokit.cxx.names; edit its tables.
#pragma once
#include <ptokit/pto.hpp>
