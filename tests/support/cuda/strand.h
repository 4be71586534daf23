#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace archipelago::emulation {

// A function with a stack of its own that runs until it pauses, and goes on there when resumed.
// Tells the address sanitizer of each change of stacks.
class Strand {
 public:
  Strand() = default;
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;
  // A body that has not ended is made to: its pause() throws.
  ~Strand();

  // Nothing runs before the first resume().
  void start(std::function<void()> body);

  // From outside: runs the body until it pauses or ends; throws what the body has thrown.
  void resume();
  bool ended() const { return !fiber_; }

  // From the body.
  void pause();

 private:
  struct Abandoned {};

  void leave(void** fake_stack, const void* bottom, std::size_t size);
  void arrive(void* fake_stack, const void** bottom, std::size_t* size);

  std::unique_ptr<char[]> stack_;
  boost::context::fiber fiber_;  // while outside runs: the body
  boost::context::fiber owner_;  // while the body runs: outside
  const void* owner_bottom_ = nullptr;
  std::size_t owner_size_ = 0;
  bool abandoned_ = false;
  std::exception_ptr failure_;
};

}  // namespace archipelago::emulation
