#include "link/mailbox.h"

#include <atomic>
#include <cstring>
#include <type_traits>

#include "core/checksum.h"

namespace archipelago::link {
namespace {

constexpr std::size_t kLine = 64;  // slots start on a cache line

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// The fixed part of a report in memory; held[P] follows. The checksum covers all that comes after
// it.
struct ReportFields {
  std::uint64_t sequence;
  std::uint64_t checksum;
  std::int64_t orders;
  std::int64_t step;
  std::int64_t tokens;
  std::int64_t resident_bytes;
  std::int64_t life_steps;
  std::int64_t lease;
  std::int64_t lease_tokens;
  double step_seconds;
  double loss;
  double accuracy;
  double learning_rate;
  double gradient_norm;
  double blocked_seconds;
  double busy_seconds;
  double joules;
  double memory_ratio;
  std::int32_t phase;
  std::int32_t learner;
  std::int32_t incarnation;
  std::int32_t unused;
};
static_assert(std::is_trivially_copyable_v<ReportFields>);
static_assert(std::is_trivially_copyable_v<SlotHeader>);

std::uint64_t report_checksum(std::span<const std::byte> bytes, std::uint64_t sequence) {
  return checksum(bytes.subspan(offsetof(ReportFields, orders)), sequence);
}

std::uint64_t load_word(std::span<const std::byte> memory, std::size_t offset) {
  // Another process writes it through MPI; an acquire load keeps the reads of the data behind it.
  auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(memory.data() + offset));
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace

MailboxLayout::MailboxLayout(int fragments, std::int64_t largest_fragment)
    : fragments_(fragments),
      largest_fragment_(largest_fragment),
      report_bytes_(round_up(sizeof(ReportFields) +
                             static_cast<std::size_t>(fragments) * sizeof(std::int32_t))),
      slot_bytes_(kLine + round_up(sizeof(SlotHeader)) +
                  round_up(static_cast<std::size_t>(largest_fragment))) {}

std::size_t MailboxLayout::bytes() const { return report_bytes_ + kSlots * slot_bytes_; }

std::size_t MailboxLayout::flag_offset(int slot) const {
  return report_bytes_ + static_cast<std::size_t>(slot) * slot_bytes_;
}

std::size_t MailboxLayout::header_offset(int slot) const { return flag_offset(slot) + kLine; }

std::size_t MailboxLayout::data_offset(int slot) const {
  return header_offset(slot) + round_up(sizeof(SlotHeader));
}

std::uint64_t header_checksum(const SlotHeader& header) {
  return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(SlotHeader, checksum)));
}

std::vector<std::byte> encode_report(const MailboxLayout& layout, const Report& report,
                                     std::uint64_t sequence) {
  std::vector<std::byte> bytes(layout.report_bytes());
  ReportFields fields{};
  fields.sequence = sequence;
  fields.orders = report.orders;
  fields.step = report.step;
  fields.tokens = report.tokens;
  fields.resident_bytes = report.resident_bytes;
  fields.life_steps = report.life_steps;
  fields.lease = report.lease;
  fields.lease_tokens = report.lease_tokens;
  fields.step_seconds = report.step_seconds;
  fields.loss = report.loss;
  fields.accuracy = report.accuracy;
  fields.learning_rate = report.learning_rate;
  fields.gradient_norm = report.gradient_norm;
  fields.blocked_seconds = report.blocked_seconds;
  fields.busy_seconds = report.busy_seconds;
  fields.joules = report.joules;
  fields.memory_ratio = report.memory_ratio;
  fields.phase = static_cast<std::int32_t>(report.phase);
  fields.learner = report.learner;
  fields.incarnation = report.incarnation;
  std::memcpy(bytes.data(), &fields, sizeof fields);
  std::vector<std::int32_t> held = report.held;
  held.resize(static_cast<std::size_t>(layout.fragments()), -1);
  std::memcpy(bytes.data() + sizeof fields, held.data(), held.size() * sizeof held[0]);
  const std::uint64_t sum = report_checksum(bytes, sequence);
  std::memcpy(bytes.data() + offsetof(ReportFields, checksum), &sum, sizeof sum);
  return bytes;
}

MailboxReader::MailboxReader(const MailboxLayout& layout, std::span<const std::byte> memory)
    : layout_(layout), memory_(memory) {}

std::optional<Report> MailboxReader::read_report() {
  if (load_word(memory_, layout_.report_offset()) == last_report_) return std::nullopt;
  std::vector<std::byte> bytes(layout_.report_bytes());
  std::memcpy(bytes.data(), memory_.data() + layout_.report_offset(), bytes.size());
  ReportFields fields;
  std::memcpy(&fields, bytes.data(), sizeof fields);
  if (fields.sequence <= last_report_ ||
      fields.checksum != report_checksum(bytes, fields.sequence)) {
    return std::nullopt;
  }
  last_report_ = fields.sequence;
  Report report;
  report.phase = static_cast<Phase>(fields.phase);
  report.orders = fields.orders;
  report.learner = fields.learner;
  report.incarnation = fields.incarnation;
  report.step = fields.step;
  report.tokens = fields.tokens;
  report.step_seconds = fields.step_seconds;
  report.loss = fields.loss;
  report.accuracy = fields.accuracy;
  report.learning_rate = fields.learning_rate;
  report.gradient_norm = fields.gradient_norm;
  report.blocked_seconds = fields.blocked_seconds;
  report.busy_seconds = fields.busy_seconds;
  report.joules = fields.joules;
  report.memory_ratio = fields.memory_ratio;
  report.resident_bytes = fields.resident_bytes;
  report.life_steps = fields.life_steps;
  report.lease = fields.lease;
  report.lease_tokens = fields.lease_tokens;
  report.held.resize(static_cast<std::size_t>(layout_.fragments()));
  std::memcpy(report.held.data(), bytes.data() + sizeof fields,
              report.held.size() * sizeof report.held[0]);
  return report;
}

std::optional<ArrivedFragment> MailboxReader::read_fragment(std::optional<int>& damaged_slot) {
  // The lower number first: the order in which the leader sent them.
  int next = -1;
  std::uint64_t lowest = 0;
  for (int slot = 0; slot < MailboxLayout::kSlots; ++slot) {
    const std::uint64_t flag = load_word(memory_, layout_.flag_offset(slot));
    if (flag == last_flag_[slot]) continue;
    if (next < 0 || flag < lowest) {
      next = slot;
      lowest = flag;
    }
  }
  if (next < 0) return std::nullopt;
  last_flag_[next] = lowest;
  auto fragment = read_slot(next, lowest);
  if (!fragment) damaged_slot = next;
  return fragment;
}

std::optional<ArrivedFragment> MailboxReader::read_slot(int slot, std::uint64_t flag) {
  SlotHeader header;
  std::memcpy(&header, memory_.data() + layout_.header_offset(slot), sizeof header);
  const auto bytes = header.fields.bytes;
  if (header.number != flag || header.checksum != header_checksum(header) || bytes < 0 ||
      bytes > layout_.largest_fragment()) {
    return std::nullopt;
  }
  const auto data = memory_.subspan(layout_.data_offset(slot), static_cast<std::size_t>(bytes));
  return ArrivedFragment{header.fields, data, slot};
}

}  // namespace archipelago::link
