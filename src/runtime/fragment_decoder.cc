#include "runtime/fragment_decoder.h"

#include <string>
#include <utility>

#include "core/checksum.h"
#include "core/log.h"

namespace archipelago::runtime {

FragmentDecoder::FragmentDecoder(const Wire& wire, int fragments, int threads)
    : wire_(wire), codec_(threads), held_(static_cast<std::size_t>(fragments)) {}

std::optional<WholeFragment> FragmentDecoder::decode(link::DownMessage message) {
  link::DownHeader& header = message.header;
  if (!wire_.updates()) {
    return WholeFragment{header, std::make_shared<link::Bytes>(std::move(message.data))};
  }
  const std::lock_guard lock(mutex_);
  Held& held = held_.at(static_cast<std::size_t>(header.fragment));
  std::shared_ptr<link::Bytes> data;
  if (header.encoding == static_cast<std::int32_t>(wire_.whole())) {
    data = std::make_shared<link::Bytes>(std::move(message.data));
    held = {header.checksum, data};
  } else {
    data = advance(message, held);
    if (data == nullptr) return std::nullopt;
    held = {header.whole_checksum, data};
    header.encoding = static_cast<std::int32_t>(wire_.whole());
    header.bytes = std::ssize(*data);
    header.checksum = header.whole_checksum;
  }
  return WholeFragment{header, std::move(data)};
}

std::shared_ptr<link::Bytes> FragmentDecoder::advance(const link::DownMessage& message,
                                                      const Held& held) const {
  const auto& header = message.header;
  const std::string name = "version " + std::to_string(header.version) + " of fragment " +
                           std::to_string(header.fragment);
  if (held.data == nullptr || held.checksum != header.base_checksum) {
    log_line(LogLevel::debug, "dropped an update to " + name + ": from a version not held");
    return nullptr;
  }
  auto data = codec_.advance(wire_.whole(), *held.data, wire_.down, message.data, header.elements);
  if (!data || checksum(*data) != header.whole_checksum) {
    log_warning("dropped an update to " + name + ": it does not lead there");
    return nullptr;
  }
  return std::make_shared<link::Bytes>(*std::move(data));
}

}  // namespace archipelago::runtime
