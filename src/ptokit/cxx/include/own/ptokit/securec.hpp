// Bounds-checked copies that host code uses.
#pragma once

#include <cstddef>

using errno_t = int;
enum { EOK = 0 };

inline int memcpy_s(void* to, std::size_t limit, const void* from, std::size_t count) {
  return count > limit ? 1 : (__builtin_memcpy(to, from, count), 0);
}
inline int memset_s(void* to, std::size_t limit, int value, std::size_t count) {
  return count > limit ? 1 : (__builtin_memset(to, value, count), 0);
}
inline int strncpy_s(char* to, std::size_t limit, const char* from, std::size_t count) {
  if (count >= limit) return 1;
  __builtin_strncpy(to, from, count);
  to[count] = 0;
  return 0;
}
inline int strcpy_s(char* to, std::size_t limit, const char* from) {
  return strncpy_s(to, limit, from, __builtin_strlen(from));
}
