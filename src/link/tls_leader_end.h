#pragma once

#include <string>
#include <vector>

#include "link/mailbox_leader_end.h"
#include "link/tls_connection.h"

namespace archipelago::link {

// The leader's end of a pair over TLS.
class TlsLeaderEnd : public MailboxLeaderEnd {
 public:
  TlsLeaderEnd(TlsConnection connection, const MailboxLayout& layout);
  // Waits a few seconds at most until the syncer has read what was put.
  ~TlsLeaderEnd() override;

  PeerState poll(std::vector<DownMessage>& messages) override;

 private:
  bool put(std::initializer_list<Piece> pieces, const char* doing) override;
  bool put_flag(const std::uint64_t& flag, std::size_t offset, const char* doing) override;
  bool write(std::span<const std::byte> bytes, const char* doing);
  bool read_on();
  void lose(const std::string& doing, const std::string& why);

  MailboxLayout layout_;
  TlsStream stream_;
  DownMessage incoming_;
  std::size_t received_ = 0;  // bytes of header and data
};

}  // namespace archipelago::link
