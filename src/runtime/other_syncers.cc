#include "runtime/other_syncers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "runtime/clock.h"
#include "sync/tape.h"

namespace archipelago::runtime {
namespace {

constexpr double kBeatSeconds = 0.2;

}  // namespace

std::string encode(const Tally& tally) {
  return nlohmann::json{{"bytes_up", tally.bytes_up},
                        {"bytes_down", tally.bytes_down},
                        {"refused", tally.refused},
                        {"largest_gap", tally.largest_gap}}
      .dump();
}

Tally decode_tally(const std::string& text) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  try {
    return {object.at("bytes_up"), object.at("bytes_down"), object.at("refused"),
            object.at("largest_gap")};
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::internal, "another syncer counts what nobody knows: " + text);
  }
}

OtherSyncers::OtherSyncers(double silence) : silence_(silence), last_poll_(now_seconds()) {}

void OtherSyncers::add(Streams streams, island::Member member) {
  others_.push_back({std::move(streams), std::move(member), now_seconds(), {}});
}

void OtherSyncers::tell(const std::string& entry) {
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::event;
  for (Other& other : others_) other.streams.decisions->send_text(header, entry);
}

void OtherSyncers::collect(std::int64_t cut) {
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::collect;
  header.cut = cut;
  for (Other& other : others_) other.streams.decisions->send_text(header, "");
}

OtherSyncers::News OtherSyncers::poll() {
  const double now = now_seconds();
  // Where this process itself was held up, their words may wait to be read.
  const bool held_up = now - last_poll_ > silence_ / 2;
  last_poll_ = now;
  News news;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    Other& other = others_[i];
    if (held_up) other.last_heard = now;
    other.streams.decisions->poll();
    take_in(other, news);
    const bool dead = other.streams.decisions->lost();
    if (!dead && now - other.last_heard <= silence_) continue;
    lost_ = true;
    news.loss = "syncer " + std::to_string(i + 1) + " (" + other.member.host + ") is " +
                (dead ? "dead" : "silent");
  }
  return news;
}

void OtherSyncers::take_in(Other& other, News& news) {
  std::vector<link::ReplicaMessage> messages;
  // A loss is seen at the stream down to it.
  static_cast<void>(other.streams.events->poll(messages));
  if (!messages.empty()) other.last_heard = now_seconds();
  for (const auto& message : messages) {
    if (message.header.kind == link::ReplicaKind::event) {
      news.events.push_back(sync::decode_entry(message.text).event);
    } else {
      other.tally = decode_tally(message.text);
    }
  }
  static_cast<void>(other.streams.fragments->poll(news.fragments));
}

void OtherSyncers::beat() {
  const double now = now_seconds();
  if (now < next_beat_) return;
  next_beat_ = now + kBeatSeconds;
  for (Other& other : others_) other.streams.decisions->send_text({}, "");
}

void OtherSyncers::conclude(bool orderly) {
  link::ReplicaHeader header;
  header.kind = link::ReplicaKind::finish;
  header.orderly = orderly ? 1 : 0;
  for (Other& other : others_) other.streams.decisions->send_text(header, "");
}

bool OtherSyncers::drained() const {
  return std::ranges::all_of(others_,
                             [](const Other& other) { return other.streams.decisions->drained(); });
}

Tally OtherSyncers::tally() const {
  Tally all;
  for (const Other& other : others_) {
    all.bytes_up += other.tally.bytes_up;
    all.bytes_down += other.tally.bytes_down;
    all.refused += other.tally.refused;
    all.largest_gap = std::max(all.largest_gap, other.tally.largest_gap);
  }
  return all;
}

nlohmann::json OtherSyncers::status() const {
  auto status = nlohmann::json::array();
  for (const Other& other : others_) {
    status.push_back({{"host", other.member.host}, {"pid", other.member.pid}});
  }
  return status;
}

void OtherSyncers::close() {
  for (Other& other : others_) {
    other.streams.decisions->close();
    other.streams.events->close();
    other.streams.fragments->close();
  }
}

}  // namespace archipelago::runtime
