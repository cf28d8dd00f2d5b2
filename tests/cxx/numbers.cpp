// Values of all bit patterns of element types, and the bit patterns nearest to given numbers.
#include <ptokit/numbers.hpp>

template <typename T, typename BITS>
void all(float* values, const float* given, int count, BITS* nearest) {
  for (unsigned k = 0; k < 1u << (8 * sizeof(BITS)); ++k) values[k] = T::of_bits(static_cast<BITS>(k));
  for (int k = 0; k < count; ++k) nearest[k] = T(given[k]).bits;
}

#define ALL(NAME, TYPE, BITS) \
  extern "C" void NAME(float* v, const float* g, int n, BITS* b) { all<TYPE, BITS>(v, g, n, b); }
ALL(float16, half, std::uint16_t)
ALL(bfloat16, bfloat16_t, std::uint16_t)
ALL(float8_e4m3fn, float8_e4m3_t, std::uint8_t)
ALL(float8_e5m2, float8_e5m2_t, std::uint8_t)
ALL(float8_e8m0fnu, float8_e8m0_t, std::uint8_t)

extern "C" void float4_e2m1fn(float* v, const float* g, int n, std::uint8_t* b) {
  for (int k = 0; k < 16; ++k) v[k] = float4_e2m1x2_t(k << 4).high();
  for (int k = 0; k < n; ++k) b[k] = float4_e2m1x2_t(g[k], 0.0f).bits;
}
extern "C" void int4(float* v, const float* g, int n, std::uint8_t* b) {
  for (int k = 0; k < 16; ++k) v[k] = static_cast<std::int8_t>(pto::int4b_t(k));
  for (int k = 0; k < n; ++k) b[k] = pto::int4b_t(static_cast<int>(g[k])).storage;
}
