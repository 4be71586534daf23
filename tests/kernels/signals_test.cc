#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <cstdint>
#include <vector>

#include "kernels/cpu/gemm.h"

namespace archipelago::kernels {
namespace {

volatile sig_atomic_t handled = 0;
volatile sig_atomic_t elsewhere = 0;
std::uintptr_t stack_begin = 0;
std::uintptr_t stack_end = 0;

void on_alarm(int) {
  const int here = 0;
  const auto frame = reinterpret_cast<std::uintptr_t>(&here);
  handled = handled + 1;
  if (frame < stack_begin || frame >= stack_end) elsewhere = elsewhere + 1;
}

void find_own_stack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  stack_end = stack_begin + size;
}

void set_alarm(suseconds_t every) {
  const itimerval timer{{0, every}, {0, every}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
}

// oneDNN's own code has the stack pointer somewhere on the heap.
TEST(Signals, AHandlerNeverRunsInsideOneDnn) {
  find_own_stack();
  struct sigaction action {};
  action.sa_handler = on_alarm;
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  const std::vector<float> a(128 * 128, 1.0F);
  std::vector<float> c(128 * 128);
  set_alarm(100);
  while (handled < 500) {
    gemm(c.data(), 128, a.data(), 128, a.data(), 128, Transpose::neither, false, 128, 128, 128);
  }
  set_alarm(0);
  ::signal(SIGALRM, SIG_DFL);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(c[0], 128);
}

}  // namespace
}  // namespace archipelago::kernels
