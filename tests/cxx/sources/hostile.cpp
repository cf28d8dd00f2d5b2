// Entries that misbehave, each in one way. Lines that a test names carry a comment.
#include "ptokit/recorder.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <csignal>
#include <vector>

using ptokit::call;
using ptokit::Operand;

namespace {

void flag(int id) {
  Operand operands[] = {Operand::of_text("PIPE_MTE2"), Operand::of_text("PIPE_V"), Operand::of(id)};
  call("set_flag", operands, 3);
}

template <typename Body>
void launch(Body body) {
  ptokit::launch("kernel", 1, [](void* b) { (*static_cast<Body*>(b))(); }, &body);
}

volatile int zero = 0;
volatile bool always = true;

int deep(int n) {
  volatile char room[256];
  room[0] = static_cast<char>(n);
  return always ? deep(n + 1) + room[0] : 0;  // recursion
}

struct Thrown {};

}  // namespace

extern "C" {

void endless() {
  launch([] {
    flag(0);
    while (always) zero = 0;  // endless
  });
}

void wild(float* a) {
  launch([=] {
    flag(0);
    *reinterpret_cast<volatile float*>(zero + 8) = *a;  // wild
  });
}

void wild_call() {
  launch([] { reinterpret_cast<void (*)()>(zero + 8)(); });  // wild call
}

void past_end(float* a, int n) {
  launch([=] {
    for (int i = 0; i <= n; ++i) a[i + 1024 * 1024 / 8] = 1;  // past the end
  });
}

void forks() {
  launch([] {
    flag(0);
    while (always) fork();  // fork
  });
}

void threads() {
  launch([] {
    flag(0);  // thread
    std::thread([] {}).join();
  });
}

void runs_a_program() {
  launch([] {
    flag(0);  // system
    zero = std::system("true");
  });
}

void prints() {
  launch([] {
    for (int i = 0; i < 100000; ++i) std::puts("0123456789");
    flag(0);
  });
}

void recursion() {
  launch([] { zero = deep(0); });
}

void exits() {
  launch([] {
    flag(0);
    std::exit(zero);  // exit
  });
}

void exits_at_once() {
  launch([] { _exit(zero); });  // exit at once
}

void throws_error() {
  launch([] { throw std::runtime_error("no such shape"); });  // throw
}

void throws_object() {
  launch([] { throw Thrown(); });  // throw object
}

void catches() {
  launch([] {
    try {
      throw std::runtime_error("caught");
    } catch (const std::exception&) {
      flag(7);
    }
  });
}

void writes_file(char* path) {
  launch([=] {
    std::FILE* file = std::fopen(path, "w");  // file
    if (file) std::fclose(file);
  });
}

void removes_file(char* path) {
  launch([=] { unlink(path); });  // unlink
}

void connects() {
  launch([] { zero = socket(AF_INET, SOCK_STREAM, 0); });  // socket
}

void allocates() {
  launch([] {
    std::vector<char*> all;
    while (always) {
      all.push_back(new char[1 << 28]);  // new
      flag(1);
    }
  });
}

void allocates_device() {
  ptokit::allocate(1000);
  ptokit::allocate(1ULL << 60);  // device
}

void aborts() {
  launch([] { std::abort(); });  // abort
}

void kills() {
  launch([] { kill(getppid(), SIGKILL); });  // kill
}

void many_calls() {
  launch([] {
    for (int i = 0; always; ++i) flag(i);  // many
  });
}

void truncates() {
  launch([] {
    for (int file = 3; file < 64; ++file) {
      if (ftruncate(file, 0) == 0) flag(2);  // truncate
    }
  });
}

// Overwrites the end of the trace, then goes on.
void scribbles() {
  launch([] {
    flag(0);
    auto* memory = static_cast<unsigned char*>(ptokit::local(ptokit::Memory::vec, 0));
    auto* page = reinterpret_cast<unsigned long*>(memory - 65536);
    for (int i = 0; i < 8192; ++i) page[i] = 0xffffffffUL;
    flag(1);
  });
}

// Overwrites the first page: sizes, counts and frames.
void scribbles_control(long pattern) {
  launch([=] {
    flag(0);
    auto* memory = static_cast<unsigned long*>(ptokit::local(ptokit::Memory::vec, 0));
    for (unsigned long* at = memory - 512; always; at -= 512) {
      if (at[0] != 0x31544f5450UL) continue;
      for (int i = 1; i < 300; ++i) at[i] = static_cast<unsigned long>(pattern);
      return;
    }
  });
}

void fails() {
  launch([] { ptokit::fail("a tile of 0 rows"); });  // fail
}

void nested() {
  launch([] { launch([] {}); });
}

void fine() {
  launch([] { flag(3); });
}
}

struct Early {
  Early() {
    if (std::getenv("PTOKIT_TEST_NEVER_SET")) std::abort();
  }
} early;
