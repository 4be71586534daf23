#include "baseline/elastic_rank.h"

#include <algorithm>
#include <span>
#include <utility>

#include "baseline/data_parallel.h"
#include "baseline/require.h"
#include "baseline/ring.h"
#include "core/checksum.h"
#include "core/log.h"
#include "data/shards.h"
#include "mpi/communicator.h"
#include "runtime/clock.h"

namespace archipelago::baseline {
namespace {

constexpr char kHandingOver[] = "handing over parameters and moments";

std::size_t place_of(const Order& order, int rank) {
  return static_cast<std::size_t>(std::ranges::find(order.members, rank, &RingMember::rank) -
                                  order.members.begin());
}

RingPlace ring_place(const Order& order, int rank) {
  const auto& members = order.members;
  const std::size_t own = place_of(order, rank);
  const RingMember& successor = members[(own + 1) % members.size()];
  const RingMember& predecessor = members[(own + members.size() - 1) % members.size()];
  RingPlace place;
  place.comm = MPI_COMM_WORLD;
  place.tag = ring_tag(order.header.epoch);
  place.index = static_cast<int>(own);
  place.size = static_cast<int>(members.size());
  place.successor = successor.rank;
  place.predecessor = predecessor.rank;
  place.successor_is_far = successor.learner != members[own].learner;
  place.predecessor_is_far = predecessor.learner != members[own].learner;
  return place;
}

// Where the learner's part of the data goes on.
data::ShardCursor place_in_data(const OrderHeader& order, std::int64_t windows,
                                std::int64_t batch) {
  std::vector<data::ShardCursor> all;
  for (int shard = 0; shard < order.learners; ++shard) all.push_back({shard, 0});
  data::Shards(windows, order.learners).advance(all, order.dealt_sequences);
  data::ShardCursor own = all.at(static_cast<std::size_t>(order.place));
  own.cursor += (order.steps - order.dealt_steps) * batch;
  return own;
}

}  // namespace

ElasticRank::ElasticRank(const runtime::Setup& setup, const data::Dataset& dataset,
                         const runtime::Layout& layout, int rank)
    : setup_(setup),
      dataset_(dataset),
      rank_(rank),
      rank_in_island_(rank - layout.first_rank(layout.island_of(rank))),
      ranks_per_island_(layout.ranks_per_island),
      channel_(layout.world_size()) {
  const int island = layout.island_of(rank);
  if (island >= setup.config.sync.learners) return;
  make_state(island);
  begin_at_the_start(setup_, *state_);
  held_steps_ = 0;
}

void ElasticRank::make_state(int learner) {
  state_.emplace(setup_, dataset_, kernels::make_cpu_kernels(setup_.config.train.threads), learner,
                 rank_in_island_, ranks_per_island_);
}

mpi::Ending ElasticRank::play() {
  for (;;) {
    const Order order = channel_.take();
    switch (order.header.kind) {
      case OrderKind::regroup:
        channel_.answer({.kind = AnswerKind::here,
                         .epoch = order.header.epoch,
                         .steps = held_steps_,
                         .run_tokens = run_tokens_});
        break;
      case OrderKind::train:
        train(order);
        break;
      case OrderKind::deliver:
        deliver();
        break;
      case OrderKind::fault:  // never comes through
        break;
      case OrderKind::leave:
        channel_.answer({.kind = AnswerKind::left});
        channel_.flush();
        return order.header.orderly != 0 ? mpi::Ending::orderly : mpi::Ending::abrupt;
    }
  }
}

void ElasticRank::train(const Order& order) {
  try {
    begin(order);
    if (order.header.stop == 0) take_steps(order);
    finish(order.header.epoch);
  } catch (const ExchangeEnded&) {
    // The coordinator's next order says how to go on.
  }
}

void ElasticRank::begin(const Order& order) {
  const OrderHeader& header = order.header;
  epoch_ = header.epoch;
  if (!state_) make_state(header.learner);
  if (order.members[place_of(order, rank_)].receives != 0) {
    receive_state(order);
  }
  run_tokens_ = header.run_tokens;
  const data::ShardCursor place = place_in_data(
      header, dataset_.samples(setup_.config.model.context), setup_.config.train.batch);
  state_->restart(header.learners, {place});
  if (rank_ == header.source) send_state(order);
}

void ElasticRank::send_state(const Order& order) {
  const checkpoint::LearnerArrays arrays = state_->arrays(room_);
  const StateHeader header = {state_->checkpoint().adam_steps, std::ssize(arrays.adam_m),
                              std::ssize(arrays.adam_v)};
  std::vector<MPI_Request> requests;
  const auto send = [&](std::span<const std::byte> bytes, MPI_Datatype type, std::size_t size,
                        int to) {
    require(mpi::outcome_of(MPI_Isend(bytes.data(), static_cast<int>(bytes.size() / size), type, to,
                                      state_tag(order.header.epoch), MPI_COMM_WORLD,
                                      &requests.emplace_back(MPI_REQUEST_NULL)),
                            kHandingOver));
  };
  for (const RingMember& member : order.members) {
    if (member.receives == 0) continue;
    send(std::as_bytes(std::span(&header, 1)), MPI_BYTE, 1, member.rank);
    for (const auto array : {arrays.parameters, arrays.adam_m, arrays.adam_v}) {
      send(std::as_bytes(array), MPI_FLOAT, sizeof(float), member.rank);
    }
  }
  for (MPI_Request& request : requests) wait(request);
}

void ElasticRank::receive_state(const Order& order) {
  held_steps_ = -1;
  const auto receive = [&](void* to, std::int64_t count, MPI_Datatype type) {
    MPI_Request request = MPI_REQUEST_NULL;
    try {
      require(mpi::outcome_of(MPI_Irecv(to, static_cast<int>(count), type, order.header.source,
                                        state_tag(order.header.epoch), MPI_COMM_WORLD, &request),
                              kHandingOver));
      wait(request);
    } catch (const ExchangeEnded&) {
      mpi::abandon_receive(request, kHandingOver);
      throw;
    }
  };
  StateHeader header;
  receive(&header, sizeof header, MPI_BYTE);
  std::vector<float> parameters(static_cast<std::size_t>(setup_.parameters));
  checkpoint::Learner saved;
  saved.adam_steps = header.optimizer_steps;
  saved.adam_m.resize(static_cast<std::size_t>(header.first_moments));
  saved.adam_v.resize(static_cast<std::size_t>(header.second_moments));
  for (auto* array : {&parameters, &saved.adam_m, &saved.adam_v}) {
    receive(array->data(), std::ssize(*array), MPI_FLOAT);
  }
  const bool is_new_life = state_->incarnation() != order.header.incarnation;
  const std::int64_t batch_tokens = setup_.batch_tokens();
  state_->begin(order.header.incarnation, order.header.steps * batch_tokens, &saved);
  for (int p = 0; p < setup_.fragment_count(); ++p) {
    const fragment::Fragment& fragment = setup_.fragments[static_cast<std::size_t>(p)];
    std::vector<float> values(static_cast<std::size_t>(fragment.size));
    fragment::gather(fragment, parameters, values);
    state_->receive(p, 0, values);
  }
  held_steps_ = order.header.steps;
  if (is_new_life) {
    first_step_ = held_steps_;
    log_info("takes the place of learner " + std::to_string(order.header.learner) + " at step " +
             std::to_string(held_steps_));
  }
}

void ElasticRank::wait(MPI_Request& request) {
  const auto outcome =
      mpi::wait_unless([this] { return channel_.has_order(); }, request, kHandingOver);
  if (!outcome) throw ExchangeEnded();
  require(*outcome);
}

void ElasticRank::take_steps(const Order& order) {
  Ring ring(ring_place(order, rank_), [this] { return channel_.has_order(); });
  DataParallel method(setup_, *state_, ring);
  const std::int64_t tokens_a_step = order.header.learners * setup_.batch_tokens();
  const std::int64_t sent_before = bytes_sent_;
  const std::int64_t received_before = bytes_received_;
  while (run_tokens_ < setup_.token_budget()) {
    state_->set_run_tokens(run_tokens_);
    const double began = runtime::now_seconds();
    const double blocked_before = method.blocked_seconds();
    method.step(held_steps_ + 1);
    ++held_steps_;
    run_tokens_ += tokens_a_step;
    const double blocked = method.blocked_seconds() - blocked_before;
    be_slow(runtime::now_seconds() - began - blocked);
    const double seconds = runtime::now_seconds() - began;
    notes_.note(seconds - blocked);
    blocked_seconds_ += blocked;
    busy_seconds_ += seconds;
    bytes_sent_ = sent_before + ring.bytes_sent();
    bytes_received_ = received_before + ring.bytes_received();
    tell_step();
  }
}

// What slows a learner slows every step that it computes.
void ElasticRank::be_slow(double seconds) {
  const double end = runtime::now_seconds() + seconds * (channel_.slowness() - 1);
  while (runtime::now_seconds() < end) {
    if (channel_.has_order()) throw ExchangeEnded();
    runtime::sleep_seconds(std::min(0.001, end - runtime::now_seconds()));
  }
}

void ElasticRank::tell_step() {
  Answer answer;
  answer.kind = AnswerKind::step;
  answer.epoch = epoch_;
  answer.steps = held_steps_;
  answer.run_tokens = run_tokens_;
  notes_.fill(answer.entry, *state_);
  answer.entry.life_steps = held_steps_ - first_step_;
  answer.entry.blocked_seconds = blocked_seconds_;
  answer.entry.busy_seconds = busy_seconds_;
  answer.entry.bytes_sent = bytes_sent_;
  answer.entry.bytes_received = bytes_received_;
  channel_.answer(answer);
}

void ElasticRank::finish(int epoch) {
  channel_.answer({.kind = AnswerKind::finished,
                   .epoch = epoch,
                   .steps = held_steps_,
                   .run_tokens = run_tokens_,
                   .digest = checksum(std::as_bytes(state_->parameters()))});
}

void ElasticRank::deliver() {
  const auto parameters = state_->parameters();
  MPI_Request request = MPI_REQUEST_NULL;
  const auto sent =
      mpi::outcome_of(MPI_Isend(parameters.data(), static_cast<int>(parameters.size()), MPI_FLOAT,
                                kCoordinator, kParametersTag, MPI_COMM_WORLD, &request),
                      kHandingOver);
  if (sent == mpi::Outcome::ok) static_cast<void>(mpi::wait(request, kHandingOver));
}

}  // namespace archipelago::baseline
