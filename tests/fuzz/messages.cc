#include <cstring>
#include <vector>

#include "core/checksum.h"
#include "fragment/codec.h"
#include "link/mailbox.h"
#include "runtime/lease_message.h"

// What a leader, or whatever else writes there, has put into the syncer's memory: read as it is,
// then with its checksums put right, so that what stands behind them is reached. The data that
// comes out is decoded in every way, and the input read as a lease.
namespace {

using namespace archipelago;

constexpr int kFragments = 3;
constexpr std::int64_t kLargest = 256;

void decode(std::span<const std::byte> data) {
  const fragment::Codec codec(1);
  for (int encoding = 0; encoding < 4; ++encoding) {
    for (std::int64_t count = 0; count <= kLargest; ++count) {
      const auto how = static_cast<fragment::Encoding>(encoding);
      std::vector<float> values(static_cast<std::size_t>(count));
      std::vector<float> scratch;
      const bool fits = codec.decode(how, data, {}, values);
      if (codec.read(how, data, count, scratch).has_value() != fits) std::abort();
      if (!fits) continue;
      std::vector<float> in_parts(values.size());
      fragment::Reader reader(codec, how, data, count, {}, in_parts);
      while (!reader.done()) reader.read_part();
      if (reader.checksum() != kernels::wire_checksum(how, data.data(), count)) std::abort();
    }
  }
}

void read(const link::MailboxLayout& layout, std::span<const std::byte> memory) {
  link::MailboxReader reader(layout, memory);
  reader.read_report();
  for (int message = 0; message < link::MailboxLayout::kSlots; ++message) {
    std::optional<int> damaged;
    if (const auto fragment = reader.read_fragment(damaged)) decode(fragment->data);
  }
}

void put_right(const link::MailboxLayout& layout, std::span<std::byte> memory) {
  link::Report report;
  std::memcpy(&report.step, memory.data() + layout.report_offset() + 24, sizeof report.step);
  const auto bytes = link::encode_report(layout, report, 1);
  std::memcpy(memory.data() + layout.report_offset(), bytes.data(), bytes.size());
  for (int slot = 0; slot < link::MailboxLayout::kSlots; ++slot) {
    link::SlotHeader header;
    std::memcpy(&header, memory.data() + layout.header_offset(slot), sizeof header);
    std::memcpy(&header.number, memory.data() + layout.flag_offset(slot), sizeof header.number);
    header.checksum = link::header_checksum(header);
    std::memcpy(memory.data() + layout.header_offset(slot), &header, sizeof header);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const link::MailboxLayout layout(kFragments, kLargest);
  std::vector<std::uint64_t> words((layout.bytes() + 7) / 8);  // aligned as windows are
  const auto memory = std::as_writable_bytes(std::span(words)).first(layout.bytes());
  std::memcpy(memory.data(), data, std::min(size, memory.size()));
  read(layout, memory);
  put_right(layout, memory);
  read(layout, memory);
  link::DownMessage lease;
  const auto input = std::as_bytes(std::span(data, size));
  lease.data.assign(input.begin(), input.end());
  runtime::leased_shards(lease);
  return 0;
}
