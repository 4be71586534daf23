#include <gtest/gtest.h>

// For tests that skip themselves without a GPU: exit code 77 where all of them did.
int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const auto* const all = testing::UnitTest::GetInstance();
  const int skipped = all->skipped_test_count();
  return result == 0 && skipped > 0 && skipped == all->test_to_run_count() ? kSkipped : result;
}
