// What a kernel asks its core: which block it runs, and the control register.
#pragma once

#include <ptokit/recorder.hpp>

namespace ptokit {

// The control register of a core; kernels set and test its bits.
inline std::uint64_t control = 0;
// A clock that advances with each question, so that waiting loops end.
inline std::uint64_t ticks = 0;

}  // namespace ptokit

inline std::int64_t get_block_idx() { return static_cast<std::int64_t>(ptokit::block_idx()); }
inline std::int64_t get_block_num() { return static_cast<std::int64_t>(ptokit::block_num()); }
inline std::int64_t get_subblockid() { return static_cast<std::int64_t>(ptokit::subblock_idx()); }
inline std::int64_t get_subblockdim() { return static_cast<std::int64_t>(ptokit::subblock_num()); }
// Variables of the device compiler with the same values.
namespace ptokit {
template <std::uint64_t (*READ)()>
struct Identity {
  operator std::int64_t() const { return static_cast<std::int64_t>(READ()); }
};
}  // namespace ptokit
inline constexpr ptokit::Identity<ptokit::block_idx> block_idx{};
inline constexpr ptokit::Identity<ptokit::block_num> block_num{};
inline std::int64_t get_coreid() { return static_cast<std::int64_t>(ptokit::block_idx()); }
inline std::uint64_t get_sys_cnt() { return ptokit::ticks += 1000; }
inline std::uint64_t get_icache_prl_st() { return 0; }
inline std::uint64_t get_ctrl() { return ptokit::control; }
inline void set_ctrl(std::uint64_t value) { ptokit::control = value; }
inline std::uint64_t sbitset0(std::uint64_t value, int bit) { return value & ~(std::uint64_t{1} << bit); }
inline std::uint64_t sbitset1(std::uint64_t value, int bit) { return value | (std::uint64_t{1} << bit); }
inline void trap() { ptokit::fail("the kernel called trap()"); }
