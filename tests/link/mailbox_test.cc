#include "link/mailbox.h"

#include <gtest/gtest.h>

#include <cstring>

namespace archipelago::link {
namespace {

constexpr int kFragments = 3;
constexpr std::int64_t kLargest = 40;  // bytes

// The syncer's memory of one pair, and what a leader does to it, one write after the other.
class MailboxTest : public testing::Test {
 protected:
  void write(std::size_t offset, const void* bytes, std::size_t size) {
    std::memcpy(memory_.data() + offset, bytes, size);
  }

  void put_report(const Report& report, std::uint64_t sequence) {
    const auto bytes = encode_report(layout_, report, sequence);
    write(layout_.report_offset(), bytes.data(), bytes.size());
  }

  // Everything but the flag.
  void put_data(int slot, std::uint64_t number, const Values& values, FragmentHeader fields = {}) {
    fields.bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
    SlotHeader header{fields, number, 0};
    header.checksum = header_checksum(header);
    write(layout_.data_offset(slot), values.data(), values.size() * sizeof(float));
    write(layout_.header_offset(slot), &header, sizeof header);
  }

  void put_flag(int slot, std::uint64_t number) {
    write(layout_.flag_offset(slot), &number, sizeof number);
  }

  void put_fragment(int slot, std::uint64_t number, const Values& values,
                    const FragmentHeader& fields = {}) {
    put_data(slot, number, values, fields);
    put_flag(slot, number);
  }

  std::optional<ArrivedFragment> read() {
    damaged_.reset();
    return reader_.read_fragment(damaged_);
  }

  MailboxLayout layout_{kFragments, kLargest};
  alignas(64) std::vector<std::byte> memory_ = std::vector<std::byte>(layout_.bytes());
  MailboxReader reader_{layout_, memory_};
  std::optional<int> damaged_;
};

Values values_of(const ArrivedFragment& fragment) {
  Values values(fragment.data.size() / sizeof(float));
  std::memcpy(values.data(), fragment.data.data(), fragment.data.size());
  return values;
}

Report example() {
  Report report;
  report.phase = Phase::paused;
  report.orders = 3;
  report.learner = 2;
  report.incarnation = 5;
  report.step = 1234567890123;
  report.tokens = 9876543210987;
  report.step_seconds = 0.125;
  report.loss = 2.5;
  report.accuracy = 0.75;
  report.learning_rate = 0.0625;
  report.gradient_norm = 1.75;
  report.blocked_seconds = 0.25;
  report.busy_seconds = 17.5;
  report.joules = 3.25;
  report.resident_bytes = 1LL << 40;
  report.held = {7, -1, 8};
  return report;
}

TEST_F(MailboxTest, NothingIsThereAtFirst) {
  EXPECT_FALSE(reader_.read_report());
  EXPECT_FALSE(read());
  EXPECT_FALSE(damaged_);
}

TEST_F(MailboxTest, PartsDoNotOverlap) {
  std::vector<std::pair<std::size_t, std::size_t>> parts = {
      {layout_.report_offset(), layout_.report_bytes()}};
  for (int slot = 0; slot < MailboxLayout::kSlots; ++slot) {
    parts.push_back({layout_.flag_offset(slot), sizeof(std::uint64_t)});
    parts.push_back({layout_.header_offset(slot), sizeof(SlotHeader)});
    parts.push_back({layout_.data_offset(slot), kLargest});
  }
  std::size_t end = 0;
  for (const auto& [offset, size] : parts) {
    EXPECT_GE(offset, end);
    EXPECT_EQ(offset % alignof(std::uint64_t), 0U);
    end = offset + size;
  }
  EXPECT_LE(end, layout_.bytes());
}

TEST_F(MailboxTest, ReportComesAsItWas) {
  put_report(example(), 1);
  const auto report = reader_.read_report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->phase, Phase::paused);
  EXPECT_EQ(report->orders, 3);
  EXPECT_EQ(report->learner, 2);
  EXPECT_EQ(report->incarnation, 5);
  EXPECT_EQ(report->step, 1234567890123);
  EXPECT_EQ(report->tokens, 9876543210987);
  EXPECT_EQ(report->step_seconds, 0.125);
  EXPECT_EQ(report->loss, 2.5);
  EXPECT_EQ(report->accuracy, 0.75);
  EXPECT_EQ(report->learning_rate, 0.0625);
  EXPECT_EQ(report->gradient_norm, 1.75);
  EXPECT_EQ(report->blocked_seconds, 0.25);
  EXPECT_EQ(report->busy_seconds, 17.5);
  EXPECT_EQ(report->joules, 3.25);
  EXPECT_EQ(report->resident_bytes, 1LL << 40);
  EXPECT_EQ(report->held, (std::vector<std::int32_t>{7, -1, 8}));
  EXPECT_FALSE(reader_.read_report()) << "the same report is read once";
}

TEST_F(MailboxTest, OnlyTheNewestReportCounts) {
  Report report = example();
  put_report(report, 1);
  report.step = 2;
  put_report(report, 2);
  ASSERT_EQ(reader_.read_report()->step, 2);
  report.step = 1;
  put_report(report, 1);
  EXPECT_FALSE(reader_.read_report()) << "one from before";
}

TEST_F(MailboxTest, ReportTornAnywhereIsReadOnceItIsWhole) {
  put_report(example(), 1);
  ASSERT_TRUE(reader_.read_report());
  Report next = example();
  next.step += 1;
  next.tokens += 7;
  next.held = {9, 9, 9};
  const auto bytes = encode_report(layout_, next, 2);
  const std::vector<std::byte> old(memory_.begin(), memory_.begin() + bytes.size());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    write(0, old.data(), old.size());
    write(0, bytes.data(), cut);
    const bool whole = std::memcmp(memory_.data(), bytes.data(), bytes.size()) == 0;
    MailboxReader reader(layout_, memory_);
    const auto report = reader.read_report();
    if (report) {
      EXPECT_TRUE(report->step == example().step || whole) << "cut at " << cut;
    }
  }
  write(0, bytes.data(), bytes.size());
  EXPECT_EQ(reader_.read_report()->step, next.step);
}

TEST_F(MailboxTest, FragmentComesAsItWas) {
  FragmentHeader fields;
  fields.learner = 1;
  fields.incarnation = 2;
  fields.round = 77;
  fields.fragment = 2;
  fields.base_version = 19;
  fields.steps = 24;
  fields.tokens = 4096;
  fields.at_tokens = 123456;
  fields.loss = 2.5;
  fields.elements = 4;
  fields.encoding = 2;
  fields.checksum = 0x1234567890ABCDEF;
  const Values values = {1.5F, -2, 3, 0};
  put_fragment(1, 1, values, fields);
  const auto fragment = read();
  ASSERT_TRUE(fragment);
  EXPECT_EQ(fragment->slot, 1);
  EXPECT_EQ(fragment->header.learner, 1);
  EXPECT_EQ(fragment->header.incarnation, 2);
  EXPECT_EQ(fragment->header.round, 77);
  EXPECT_EQ(fragment->header.fragment, 2);
  EXPECT_EQ(fragment->header.base_version, 19);
  EXPECT_EQ(fragment->header.steps, 24);
  EXPECT_EQ(fragment->header.tokens, 4096);
  EXPECT_EQ(fragment->header.at_tokens, 123456);
  EXPECT_EQ(fragment->header.loss, 2.5);
  EXPECT_EQ(fragment->header.elements, 4);
  EXPECT_EQ(fragment->header.encoding, 2);
  EXPECT_EQ(fragment->header.checksum, 0x1234567890ABCDEF) << "of the data: not looked at here";
  EXPECT_EQ(values_of(*fragment), values);
  EXPECT_FALSE(read());
}

TEST_F(MailboxTest, DataWithoutItsFlagIsNotLookedAt) {
  put_data(0, 1, {1, 2, 3});
  EXPECT_FALSE(read());
  EXPECT_FALSE(damaged_);
  put_flag(0, 1);
  EXPECT_TRUE(read());
}

TEST_F(MailboxTest, SlotsAreReadInTheOrderOfSending) {
  put_fragment(1, 1, {1});
  put_fragment(0, 2, {2});
  EXPECT_EQ(values_of(*read())[0], 1);
  EXPECT_EQ(values_of(*read())[0], 2);
  put_fragment(0, 3, {3});
  put_fragment(1, 4, {4});
  EXPECT_EQ(values_of(*read())[0], 3);
  EXPECT_EQ(values_of(*read())[0], 4);
  EXPECT_FALSE(read());
}

TEST_F(MailboxTest, StaleFlagAnnouncesNothing) {
  put_fragment(0, 1, {1});
  ASSERT_TRUE(read());
  put_data(0, 2, {2});  // the next message's data, its flag is still on the way
  EXPECT_FALSE(read());
  EXPECT_FALSE(damaged_);
}

TEST_F(MailboxTest, DamagedHeaderIsReportedOnceAndSkipped) {
  put_fragment(0, 1, {1, 2, 3});
  memory_[layout_.header_offset(0) + 5] ^= std::byte{0x10};
  put_fragment(1, 2, {4});
  EXPECT_FALSE(read());
  ASSERT_TRUE(damaged_);
  EXPECT_EQ(*damaged_, 0);
  EXPECT_EQ(values_of(*read())[0], 4);
  EXPECT_FALSE(read());
  EXPECT_FALSE(damaged_);
}

TEST_F(MailboxTest, EachDamagedByteOfTheHeaderIsNoticed) {
  for (std::size_t byte = 0; byte < sizeof(SlotHeader); ++byte) {
    put_fragment(0, byte + 1, {1, 2, 3});
    memory_[layout_.header_offset(0) + byte] ^= std::byte{0x01};
    EXPECT_FALSE(read()) << "byte " << byte;
    EXPECT_TRUE(damaged_) << "byte " << byte;
  }
}

TEST_F(MailboxTest, LengthBeyondTheSlotIsNotFollowed) {
  for (const std::int64_t bytes : {kLargest + 1, std::int64_t{1} << 60, std::int64_t{-1}}) {
    SlotHeader header{{}, static_cast<std::uint64_t>(bytes & 0xff) + 1, 0};
    header.fields.bytes = bytes;
    header.checksum = header_checksum(header);
    write(layout_.header_offset(0), &header, sizeof header);
    put_flag(0, header.number);
    EXPECT_FALSE(read());
    EXPECT_TRUE(damaged_);
  }
}

TEST_F(MailboxTest, HeaderOfAnotherMessageIsNotTaken) {
  put_data(0, 1, {1});
  put_flag(0, 2);
  EXPECT_FALSE(read());
  EXPECT_TRUE(damaged_);
}

}  // namespace
}  // namespace archipelago::link
