#include "runtime/dry_run.h"

#include <algorithm>
#include <sstream>

#include "config/hint.h"
#include "config/options.h"
#include "core/units.h"
#include "kernels/kernels.h"
#include "link/mailbox.h"
#include "model/size.h"
#include "runtime/checkpoint_room.h"
#include "runtime/clock.h"
#include "runtime/learner_memory.h"
#include "runtime/validation.h"

namespace archipelago::runtime {
namespace {

constexpr double kFloat = sizeof(float);

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

// Operations a second of a matrix product on `threads` threads.
double product_rate(int threads) {
  constexpr std::int64_t kSize = 1024;
  constexpr double kSeconds = 0.3;
  const auto device = kernels::make_cpu_kernels(threads);
  const kernels::Buffer a(*device, kSize * kSize);
  const kernels::Buffer b(*device, kSize * kSize);
  const kernels::Buffer c(*device, kSize * kSize);
  const auto multiply = [&] {
    device->matmul(c.data(), a.data(), b.data(), kernels::Transpose::neither, false, kSize, kSize,
                   kSize);
  };
  multiply();
  const double start = now_seconds();
  int products = 0;
  for (; now_seconds() < start + kSeconds; ++products) multiply();
  return 2.0 * kSize * kSize * kSize * products / (now_seconds() - start);
}

void add_model(std::ostream& out, const Setup& setup, const model::Size& size) {
  const auto& model = setup.config.model;
  out << "model: " << model.kind << ", " << model.layers << " layers x " << model.width << ", "
      << model.heads << " heads, " << model.context << " positions, vocabulary " << model.vocabulary
      << "\n  parameters " << grouped(size.parameters);
  if (size.active != size.parameters) out << ", of which active a token " << grouped(size.active);
  out << "; in " << setup.tensors.size() << " tensors and " << setup.fragment_count()
      << " fragments, the largest of " << grouped(setup.largest_fragment) << '\n';
}

void add_learner(std::ostream& out, const Setup& setup, int learner, std::int64_t data_bytes) {
  const auto own = config::for_learner(setup.config, learner);
  const LearnerMemory memory = learner_memory(setup, own, data_bytes);
  out << "  parameters " << bytes_text(static_cast<double>(memory.parameters)) << ", gradients "
      << bytes_text(static_cast<double>(memory.gradients)) << ", moments "
      << bytes_text(static_cast<double>(memory.moments)) << ", activations "
      << bytes_text(static_cast<double>(memory.activations));
  if (memory.exchange > 0) {
    out << ", kept for differences " << bytes_text(static_cast<double>(memory.exchange));
  }
  out << ", two fragments " << bytes_text(static_cast<double>(memory.fragments));
  if (memory.data > 0) out << ", data " << bytes_text(static_cast<double>(memory.data));
  out << ": together " << bytes_text(static_cast<double>(memory.total() + memory.data)) << '\n';
}

void add_syncer(std::ostream& out, const Setup& setup, int syncer) {
  const auto& sync = setup.config.sync;
  const Share share{syncer, sync.syncers};
  std::int64_t elements = 0;
  for (int p = 0; p < setup.fragment_count(); ++p) {
    if (share.holds(p)) elements += setup.fragments[static_cast<std::size_t>(p)].size;
  }
  const double state = 2 * kFloat * static_cast<double>(elements);
  const double merge = 2 * kFloat * static_cast<double>(largest_fragment(setup, share));
  const double mailboxes =
      static_cast<double>(mailbox_layout(setup, share).bytes()) * (sync.learners + sync.spares);
  // Collected from the others, and the file.
  const double whole = 2 * kFloat * static_cast<double>(setup.parameters);
  const double checkpoint = syncer == 0 ? 2 * whole - state : 0;
  double validation = 0;
  if (syncer == 0) {
    validation = whole / 2 + static_cast<double>(validation_bytes(setup));
    // While it trains, of a copy that stands still.
    if (setup.config.checkpoint.validate) validation += whole;
  }
  out << "memory of " << (sync.syncers == 1 ? "the syncer" : "syncer " + std::to_string(syncer))
      << ":\n  parameters and momentum " << bytes_text(state) << ", mailboxes "
      << bytes_text(mailboxes) << ", a merge " << bytes_text(merge);
  if (syncer == 0) {
    out << ", a checkpoint on its way " << bytes_text(checkpoint) << ", a validation "
        << bytes_text(validation);
  }
  out << ": together " << bytes_text(state + merge + mailboxes + checkpoint + validation) << '\n';
}

// Methods without a syncer: what the first rank takes besides, at the end.
void add_end(std::ostream& out, const Setup& setup) {
  const double checkpoint = 2 * kFloat * static_cast<double>(setup.parameters);
  out << "  and of the first rank, at the end, the checkpoint " << bytes_text(checkpoint)
      << " and a validation " << bytes_text(static_cast<double>(validation_bytes(setup))) << '\n';
}

// Where a run is planned on another machine than it is to train on.
void add_device(std::ostream& out, const Setup& setup) {
  if (setup.config.device != "cuda" || kernels::cuda_devices() > 0) return;
  out << "device: this machine has no GPU to use (" << kernels::why_no_cuda()
      << "); memory and speed below are a processor's\n";
}

void add_memory(std::ostream& out, const Setup& setup, std::int64_t data_bytes) {
  const auto& sync = setup.config.sync;
  out << "memory of each rank of a learner (" << sync.ranks_per_learner << " a learner):\n";
  add_learner(out, setup, -1, data_bytes);
  for (const auto& [learner, options] : setup.config.learners) {
    out << "  learner " << learner << ":\n  ";
    add_learner(out, setup, learner, data_bytes);
  }
  if (!config::has_syncer(setup.config)) return add_end(out, setup);
  for (int syncer = 0; syncer < sync.syncers; ++syncer) add_syncer(out, setup, syncer);
}

void add_checkpoints(std::ostream& out, const Setup& setup) {
  const CheckpointBytes one = checkpoint_bytes(setup);
  const double needed = bytes_of_checkpoints(setup);
  out << "checkpoints:\n  a global one " << bytes_text(static_cast<double>(one.global));
  if (config::has_syncer(setup.config)) {
    const double for_ever = kept_for_ever(setup);
    out << ", one of every learner " << bytes_text(static_cast<double>(one.learners)) << "; "
        << setup.config.checkpoint.keep << " of each are kept, and one on its way";
    if (for_ever > 0) out << ", and " << for_ever << " global ones for ever";
    out << ": together " << bytes_text(needed) << '\n';
  } else {
    out << ", at the end\n";
  }
  const auto room = free_room(setup.config.out);
  if (!room) return;
  out << "  free in " << room->folder.string() << ": " << bytes_text(room->free)
      << (room->holds(needed) ? "" : ", which is too little") << '\n';
}

double encoded(fragment::Encoding encoding, std::int64_t elements) {
  return static_cast<double>(fragment::encoded_size(encoding, elements));
}

void add_way(std::ostream& out, const Setup& setup, const std::string& way,
             fragment::Encoding encoding, const std::string& name) {
  const auto& sync = setup.config.sync;
  const double whole = encoded(encoding, setup.parameters);
  const double largest = encoded(encoding, setup.largest_fragment);
  out << "exchange " << way << ", in " << name << ":\n  " << bytes_text(whole / sync.interval)
      << " a learner and inner step, " << bytes_text(whole / setup.fragment_count() * sync.learners)
      << " a round over " << sync.learners << " learners (" << bytes_text(largest * sync.learners)
      << " in the round of the largest fragment)\n";
}

// Seconds of an inner step on this machine, at the least.
struct StepTime {
  double flops;
  double rate;
  double seconds() const { return flops / rate; }
  std::string text() const {
    return "at least " + fixed_text(seconds(), 3) + " s (" + fixed_text(1e-9 * flops, 1) +
           " GFLOP at the " + fixed_text(1e-9 * rate, 0) + " GFLOP/s of a matrix product)";
  }
};

StepTime step_time(const Setup& setup, const model::Size& size) {
  const auto positions = static_cast<double>(setup.config.train.batch * setup.config.model.context);
  return {size.flops * positions / setup.config.sync.ranks_per_learner,
          product_rate(setup.config.train.threads)};
}

std::string gigabits(double bytes) { return fixed_text(8e-9 * bytes, 4) + " Gbit/s"; }

// Round a ring of M learners 2 (M-1)/M of the values go over each link (docs/exchange.md).
void add_ring(std::ostream& out, const Setup& setup, const model::Size& size) {
  const auto& sync = setup.config.sync;
  const bool every_step = setup.config.method == "data-parallel";
  const double share = 2.0 * (sync.learners - 1) / sync.learners;
  const double step = share * kFloat * static_cast<double>(setup.parameters) /
                      (every_step ? 1 : static_cast<double>(sync.interval));
  const StepTime time = step_time(setup, size);
  out << "exchange round a ring, in f32:\n  " << bytes_text(step)
      << " each way a learner and inner step\nbandwidth each way:\n  for inner steps of 1 s: "
      << gigabits(step) << " a learner on average\n  for this machine's, " << time.text() << ": "
      << gigabits(step / time.seconds()) << '\n';
}

void add_exchange(std::ostream& out, const Setup& setup, const model::Size& size) {
  const auto& sync = setup.config.sync;
  const auto& wire = setup.wire;
  add_way(out, setup, "up", wire.up, setup.config.wire.up);
  add_way(out, setup, "down", wire.down, setup.config.wire.down);
  const double step =
      std::max(encoded(wire.up, setup.parameters), encoded(wire.down, setup.parameters)) /
      sync.interval;
  const double largest = std::max(encoded(wire.up, setup.largest_fragment),
                                  encoded(wire.down, setup.largest_fragment));

  const StepTime time = step_time(setup, size);
  const double seconds = time.seconds();
  // An exchange is a way up and a way down, and may take `overlap` steps.
  const double within = std::max(sync.overlap, 1.0) / 2;
  out << "bandwidth of the busier way:\n  for inner steps of 1 s: " << gigabits(step)
      << " a learner on average, " << gigabits(step * sync.learners) << " at the syncer, "
      << gigabits(largest / within) << " a learner so that the largest fragment's exchange takes "
      << std::max(sync.overlap, 1.0) << " steps\n  for this machine's, " << time.text() << ": "
      << gigabits(step / seconds) << ", " << gigabits(step * sync.learners / seconds) << ", "
      << gigabits(largest / within / seconds) << '\n';
}

}  // namespace

std::string describe_run(const Setup& setup, const data::Dataset* dataset) {
  const model::Size size = model::size_of(setup.config.model);
  std::ostringstream out;
  add_model(out, setup, size);
  add_device(out, setup);
  add_memory(out, setup, dataset == nullptr ? 0 : dataset->bytes());
  add_checkpoints(out, setup);
  if (config::has_syncer(setup.config)) {
    add_exchange(out, setup, size);
  } else {
    add_ring(out, setup, size);
  }
  if (const auto hint = config::outer_momentum_hint(setup.config)) out << "hint: " << *hint << '\n';
  return out.str();
}

}  // namespace archipelago::runtime
