// A kernel that reads files: in the constructor of a static object, and when it runs.
#undef _FORTIFY_SOURCE  // which makes an inline function of a header of open
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ptokit/recorder.hpp>

namespace {

// What a file begins with, or why it cannot be read.
char seen[4][64];

void look(int number, const char* path) {
  int file = open(path, O_RDONLY);
  if (file < 0) {
    std::snprintf(seen[number], sizeof seen[number], "no");
    return;
  }
  long count = read(file, seen[number], sizeof seen[number] - 1);
  seen[number][count < 0 ? 0 : count] = 0;
  close(file);
}

struct Early {
  Early() {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/environ", static_cast<int>(getppid()));
    look(0, path);
    look(1, "/etc/passwd");
    std::snprintf(path, sizeof path, "/proc/%d/mem", static_cast<int>(getppid()));
    look(2, path);
    look(3, "/dev/zero");
  }
} early;

}  // namespace

extern "C" void tells() {
  for (const char* text : seen) std::printf("[%s]", text);
  std::fflush(stdout);
}

extern "C" void reads(const char* path) {
  int file = open(path, O_RDONLY);  // open
  std::printf("%d", file);
}

// What a kernel learns of a file by its name; empty if nothing.
extern "C" void asks(const char* path) {
  struct stat about {};
  struct statx more {};
  std::printf("<");
  if (stat(path, &about) == 0) std::printf("stat ");
  if (lstat(path, &about) == 0) std::printf("lstat ");
  if (fstatat(AT_FDCWD, path, &about, AT_EMPTY_PATH) == 0) std::printf("fstatat ");
  if (statx(AT_FDCWD, path, 0, STATX_ALL, &more) == 0) std::printf("statx ");
  if (access(path, F_OK) == 0) std::printf("access ");
  std::printf("> %ld\n", syscall(SYS_fstat, 1, &about));
  std::fflush(stdout);
}

// A system call of 32 bits, which has other numbers.
extern "C" void calls_old() {
#if defined(__x86_64__)
  asm volatile("int $0x80" : : "a"(20) : "memory");
#else
  syscall(SYS_kill, 0, 0);
#endif
}
