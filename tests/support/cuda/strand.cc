#include "strand.h"

#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace archipelago::emulation {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;

// Stacks that are used again: a launch makes a strand for each of its threads.
std::vector<std::unique_ptr<char[]>>& spare_stacks() {
  static std::vector<std::unique_ptr<char[]>> stacks;
  return stacks;
}

std::unique_ptr<char[]> take_stack() {
  if (spare_stacks().empty()) return std::make_unique<char[]>(kStackBytes);
  auto stack = std::move(spare_stacks().back());
  spare_stacks().pop_back();
  return stack;
}

// Boost's fiber takes the memory that the strand owns.
struct GivenStack {
  boost::context::stack_context allocate() const { return {}; }
  void deallocate(boost::context::stack_context&) const {}
};

}  // namespace

Strand::~Strand() {
  if (!ended()) {
    abandoned_ = true;
    resume();
  }
  if (stack_) spare_stacks().push_back(std::move(stack_));
}

void Strand::start(std::function<void()> body) {
  stack_ = take_stack();
  boost::context::stack_context context;
  context.size = kStackBytes;
  context.sp = stack_.get() + kStackBytes;
  const boost::context::preallocated memory(context.sp, context.size, context);
  fiber_ = boost::context::fiber(std::allocator_arg, memory, GivenStack(),
                                 [this, body = std::move(body)](boost::context::fiber&& owner) {
                                   arrive(nullptr, &owner_bottom_, &owner_size_);
                                   owner_ = std::move(owner);
                                   try {
                                     if (!abandoned_) body();
                                   } catch (const Abandoned&) {
                                   } catch (...) {
                                     failure_ = std::current_exception();
                                   }
                                   leave(nullptr, owner_bottom_, owner_size_);
                                   return std::move(owner_);
                                 });
}

void Strand::resume() {
  void* fake_stack = nullptr;
  leave(&fake_stack, stack_.get(), kStackBytes);
  fiber_ = std::move(fiber_).resume();
  arrive(fake_stack, nullptr, nullptr);
  if (failure_ && !abandoned_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Strand::pause() {
  void* fake_stack = nullptr;
  leave(&fake_stack, owner_bottom_, owner_size_);
  owner_ = std::move(owner_).resume();
  arrive(fake_stack, &owner_bottom_, &owner_size_);
  if (abandoned_) throw Abandoned();
}

#ifdef __SANITIZE_ADDRESS__
void Strand::leave(void** fake_stack, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
void Strand::arrive(void* fake_stack, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
#else
void Strand::leave(void**, const void*, std::size_t) {}
void Strand::arrive(void*, const void**, std::size_t*) {}
#endif

}  // namespace archipelago::emulation
