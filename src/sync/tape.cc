#include "sync/tape.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <type_traits>

#include "core/checksum.h"
#include "core/error.h"
#include "core/readable.h"

namespace archipelago::sync {
namespace {

using Json = nlohmann::ordered_json;

template <typename Struct, typename Value>
struct Field {
  const char* name;
  Value Struct::*member;
  bool is_later = false;  // older tapes do not have it: it is 0
};

template <typename Struct, typename Value>
constexpr Field<Struct, Value> field(const char* name, Value Struct::*member,
                                     bool is_later = false) {
  return {name, member, is_later};
}

// The name of a struct on the tape and its fields, in order.
template <typename T>
struct Layout;

#define ARCHIPELAGO_LAYOUT(type, tape_name, ...)                  \
  template <>                                                     \
  struct Layout<type> {                                           \
    using Type = type;                                            \
    static constexpr const char* kName = tape_name;               \
    static constexpr auto kFields = std::make_tuple(__VA_ARGS__); \
  }
#define ARCHIPELAGO_FIELD(name) field(#name, &Type::name)
#define ARCHIPELAGO_LATER_FIELD(name) field(#name, &Type::name, true)

ARCHIPELAGO_LAYOUT(Settings, "settings", ARCHIPELAGO_FIELD(learners), ARCHIPELAGO_FIELD(fragments),
                   ARCHIPELAGO_FIELD(interval), ARCHIPELAGO_FIELD(overlap),
                   ARCHIPELAGO_FIELD(quorum), ARCHIPELAGO_FIELD(grace),
                   ARCHIPELAGO_FIELD(grace_cap), ARCHIPELAGO_FIELD(suspect_after),
                   ARCHIPELAGO_FIELD(expel_after), ARCHIPELAGO_FIELD(outlier),
                   ARCHIPELAGO_FIELD(loss_limit), ARCHIPELAGO_FIELD(max_open_rounds),
                   ARCHIPELAGO_FIELD(spares), ARCHIPELAGO_FIELD(token_budget),
                   ARCHIPELAGO_FIELD(batch_tokens), ARCHIPELAGO_FIELD(checkpoint_rounds),
                   ARCHIPELAGO_FIELD(checkpoint_after), ARCHIPELAGO_FIELD(shards),
                   ARCHIPELAGO_FIELD(windows), ARCHIPELAGO_FIELD(groups),
                   ARCHIPELAGO_FIELD(sequence_tokens));
ARCHIPELAGO_LAYOUT(Restored, "restored", ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(versions),
                   ARCHIPELAGO_FIELD(incarnations), ARCHIPELAGO_FIELD(merged_tokens),
                   ARCHIPELAGO_FIELD(shards));

ARCHIPELAGO_LAYOUT(IslandReady, "island_ready", ARCHIPELAGO_FIELD(island));
ARCHIPELAGO_LAYOUT(GuestReady, "guest_ready", ARCHIPELAGO_FIELD(island));
ARCHIPELAGO_LAYOUT(IslandLost, "island_lost", ARCHIPELAGO_FIELD(island), ARCHIPELAGO_FIELD(reason));
ARCHIPELAGO_LAYOUT(Report, "report", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation),
                   ARCHIPELAGO_FIELD(step), ARCHIPELAGO_FIELD(tokens),
                   ARCHIPELAGO_FIELD(step_seconds), ARCHIPELAGO_FIELD(loss),
                   ARCHIPELAGO_FIELD(held));
ARCHIPELAGO_LAYOUT(LeaseFollowed, "lease_followed", ARCHIPELAGO_FIELD(learner),
                   ARCHIPELAGO_FIELD(incarnation), ARCHIPELAGO_FIELD(number),
                   ARCHIPELAGO_FIELD(tokens));
ARCHIPELAGO_LAYOUT(Delivery, "delivery", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation),
                   ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(fragment),
                   ARCHIPELAGO_FIELD(base_version), ARCHIPELAGO_FIELD(steps),
                   ARCHIPELAGO_FIELD(tokens), ARCHIPELAGO_FIELD(at_tokens),
                   ARCHIPELAGO_LATER_FIELD(loss), ARCHIPELAGO_FIELD(norm));
ARCHIPELAGO_LAYOUT(Merged, "merged", ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(seconds));
ARCHIPELAGO_LAYOUT(Tick, "tick");
ARCHIPELAGO_LAYOUT(StopRequested, "stop_requested", ARCHIPELAGO_FIELD(reason));
ARCHIPELAGO_LAYOUT(NobodyLeft, "nobody_left", ARCHIPELAGO_FIELD(reason));
ARCHIPELAGO_LAYOUT(ScaleRequested, "scale_requested", ARCHIPELAGO_FIELD(learners));
ARCHIPELAGO_LAYOUT(SyncerReplaced, "syncer_replaced", ARCHIPELAGO_FIELD(term));

ARCHIPELAGO_LAYOUT(Assign, "assign", ARCHIPELAGO_FIELD(island), ARCHIPELAGO_FIELD(learner),
                   ARCHIPELAGO_FIELD(incarnation), ARCHIPELAGO_FIELD(tokens));
ARCHIPELAGO_LAYOUT(Refresh, "refresh", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation));
ARCHIPELAGO_LAYOUT(Lease, "lease", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation),
                   ARCHIPELAGO_FIELD(number), ARCHIPELAGO_FIELD(shards),
                   ARCHIPELAGO_FIELD(cursors));
ARCHIPELAGO_LAYOUT(Ask, "ask", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation),
                   ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(fragment));
ARCHIPELAGO_LAYOUT(Contribution, "contribution", ARCHIPELAGO_FIELD(learner),
                   ARCHIPELAGO_FIELD(incarnation), ARCHIPELAGO_FIELD(weight));
ARCHIPELAGO_LAYOUT(Merge, "merge", ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(fragment),
                   ARCHIPELAGO_FIELD(contributions));
ARCHIPELAGO_LAYOUT(Publish, "publish", ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(fragment),
                   ARCHIPELAGO_FIELD(version));
ARCHIPELAGO_LAYOUT(Discard, "discard", ARCHIPELAGO_FIELD(learner), ARCHIPELAGO_FIELD(incarnation),
                   ARCHIPELAGO_FIELD(round), ARCHIPELAGO_FIELD(fragment),
                   ARCHIPELAGO_FIELD(reason));
ARCHIPELAGO_LAYOUT(Expel, "expel", ARCHIPELAGO_FIELD(island), ARCHIPELAGO_FIELD(learner),
                   ARCHIPELAGO_FIELD(incarnation), ARCHIPELAGO_FIELD(reason));
ARCHIPELAGO_LAYOUT(Retire, "retire", ARCHIPELAGO_FIELD(island), ARCHIPELAGO_FIELD(learner),
                   ARCHIPELAGO_FIELD(incarnation));
ARCHIPELAGO_LAYOUT(Pause, "pause");
ARCHIPELAGO_LAYOUT(SaveGlobal, "save_global", ARCHIPELAGO_FIELD(round));
ARCHIPELAGO_LAYOUT(Refill, "refill", ARCHIPELAGO_FIELD(islands));
ARCHIPELAGO_LAYOUT(Finish, "finish", ARCHIPELAGO_FIELD(outcome), ARCHIPELAGO_FIELD(reason));

#undef ARCHIPELAGO_FIELD
#undef ARCHIPELAGO_LATER_FIELD
#undef ARCHIPELAGO_LAYOUT

constexpr std::string_view kSumBegin = ",\"sum\":\"";
constexpr std::size_t kSumDigits = 16;
constexpr std::string_view kSumEnd = "\"}";

constexpr const char* kOutcomes[] = {"complete", "stopped", "no_learners", "diverged"};

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ExitCode::bad_data, "event tape: " + problem);
}

// ---- Values
// ----------------------------------------------------------------------------------------

Json encode_value(double value) {
  if (std::isfinite(value)) return value;
  return to_hex(std::bit_cast<std::uint64_t>(value));
}
template <typename Integer>
requires std::is_integral_v<Integer> Json encode_value(Integer value) { return value; }
Json encode_value(const std::string& value) { return value; }
Json encode_value(Outcome value) { return kOutcomes[static_cast<int>(value)]; }

template <typename Element>
Json encode_value(const std::vector<Element>& values);
Json encode_value(const Contribution& value);

template <typename Struct>
void encode_fields(const Struct& value, Json& object) {
  std::apply(
      [&](const auto&... fields) {
        ((object[fields.name] = encode_value(value.*fields.member)), ...);
      },
      Layout<Struct>::kFields);
}

Json encode_value(const Contribution& value) {
  Json object = Json::object();
  encode_fields(value, object);
  return object;
}
template <typename Element>
Json encode_value(const std::vector<Element>& values) {
  Json array = Json::array();
  for (const Element& value : values) array.push_back(encode_value(value));
  return array;
}

void decode_value(const Json& json, double& value) {
  if (json.is_number()) {
    value = json.get<double>();
    return;
  }
  const std::string text = json.is_string() ? json.get<std::string>() : std::string();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail("a number is " + json.dump());
  }
  value = std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(text, nullptr, 16)));
}
template <typename Integer>
requires std::is_integral_v<Integer>
void decode_value(const Json& json, Integer& value) {
  if (!json.is_number_integer()) fail("an integer is " + json.dump());
  const auto wide = json.get<std::int64_t>();
  value = static_cast<Integer>(wide);
  if (value != wide) fail("an integer is out of range: " + json.dump());
}
void decode_value(const Json& json, std::string& value) {
  if (!json.is_string()) fail("a text is " + json.dump());
  value = json.get<std::string>();
}
void decode_value(const Json& json, Outcome& value) {
  for (std::size_t i = 0; i < std::size(kOutcomes); ++i) {
    if (json == kOutcomes[i]) {
      value = static_cast<Outcome>(i);
      return;
    }
  }
  fail("no outcome is called " + json.dump());
}

template <typename Struct>
void decode_fields(const Json& object, Struct& value);
template <typename Element>
void decode_value(const Json& json, std::vector<Element>& values);

void decode_value(const Json& json, Contribution& value) { decode_fields(json, value); }
template <typename Element>
void decode_value(const Json& json, std::vector<Element>& values) {
  if (!json.is_array()) fail("a list is " + json.dump());
  values.clear();
  for (const Json& element : json) decode_value(element, values.emplace_back());
}

const Json& member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) {
    fail(std::string(name) + " is missing in " + object.dump());
  }
  return *found;
}

template <typename Struct>
void decode_fields(const Json& object, Struct& value) {
  const auto decode = [&](const auto& one) {
    if (one.is_later && object.is_object() && !object.contains(one.name)) return;
    decode_value(member(object, one.name), value.*one.member);
  };
  std::apply([&](const auto&... fields) { (decode(fields), ...); }, Layout<Struct>::kFields);
}

// Fields that an older tape does not have keep their defaults.
template <typename Struct>
void decode_known_fields(const Json& object, Struct& value) {
  if (!object.is_object()) fail("a start is " + object.dump());
  const auto decode = [&](const auto& one) {
    const auto found = object.find(one.name);
    if (found != object.end()) decode_value(*found, value.*one.member);
  };
  std::apply([&](const auto&... fields) { (decode(fields), ...); }, Layout<Struct>::kFields);
}

// ---- Events and actions
// ----------------------------------------------------------------------------

template <typename... Types>
Json encode_variant(const std::variant<Types...>& variant) {
  return std::visit(
      [](const auto& value) {
        using Struct = std::decay_t<decltype(value)>;
        Json object = {{"type", Layout<Struct>::kName}};
        encode_fields(value, object);
        return object;
      },
      variant);
}

template <typename Variant, typename Struct>
bool decode_if(const std::string& type, const Json& object, Variant& variant) {
  if (type != Layout<Struct>::kName) return false;
  Struct value{};
  decode_fields(object, value);
  variant = std::move(value);
  return true;
}

template <typename... Types>
void decode_variant(const Json& object, std::variant<Types...>& variant) {
  std::string type;
  decode_value(member(object, "type"), type);
  const bool known = (decode_if<std::variant<Types...>, Types>(type, object, variant) || ...);
  if (!known) fail("nothing is called \"" + type + "\"");
}

Json parse(std::string_view line) {
  if (is_nested_too_deeply(line)) fail("lists lie within each other too deeply");
  try {
    return Json::parse(line);
  } catch (const Json::exception&) {
    fail("a line is cut off or no JSON: " + std::string(line.substr(0, 80)));
  }
}

}  // namespace

std::string encode_start(const TapeStart& start) {
  Json object = {{"settings", Json::object()}, {"restored", Json::object()}};
  encode_fields(start.settings, object["settings"]);
  encode_fields(start.restored, object["restored"]);
  return object.dump();
}

std::string encode_entry(Nanoseconds time, const Event& event, std::span<const Action> actions) {
  Json object = {{"t", time}, {"event", encode_variant(event)}, {"actions", Json::array()}};
  for (const Action& action : actions) object["actions"].push_back(encode_variant(action));
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string encode_action(const Action& action) { return encode_variant(action).dump(); }

TapeStart decode_start(std::string_view line) {
  const Json object = parse(line);
  TapeStart start;
  if (member(object, "settings").contains("method")) {
    fail("a method without a syncer wrote this, there are no decisions on it");
  }
  decode_known_fields(member(object, "settings"), start.settings);
  decode_known_fields(member(object, "restored"), start.restored);
  return start;
}

TapeEntry decode_entry(std::string_view line) {
  const Json object = parse(line);
  TapeEntry entry;
  decode_value(member(object, "t"), entry.time);
  decode_variant(member(object, "event"), entry.event);
  const Json& actions = member(object, "actions");
  if (!actions.is_array()) fail("\"actions\" is no list");
  for (const Json& action : actions) decode_variant(action, entry.actions.emplace_back());
  return entry;
}

std::string TapeChain::seal(const std::string& line) {
  sum_ = checksum(std::as_bytes(std::span(line)), sum_);
  std::string sealed = line.substr(0, line.size() - 1);
  sealed += kSumBegin;
  sealed += to_hex(sum_);
  sealed += kSumEnd;
  return sealed;
}

TapeChain::Fit TapeChain::follow(std::string_view line) {
  constexpr std::size_t kLength = kSumBegin.size() + kSumDigits + kSumEnd.size();
  if (line.size() <= kLength || !line.ends_with(kSumEnd)) return Fit::unsealed;
  const std::string_view seal = line.substr(line.size() - kLength);
  if (!seal.starts_with(kSumBegin)) return Fit::unsealed;
  std::string told(line.substr(0, line.size() - kLength));
  told += '}';
  const std::uint64_t sum = checksum(std::as_bytes(std::span(told)), sum_);
  if (seal.substr(kSumBegin.size(), kSumDigits) != to_hex(sum)) return Fit::differs;
  sum_ = sum;
  return Fit::fits;
}

}  // namespace archipelago::sync
