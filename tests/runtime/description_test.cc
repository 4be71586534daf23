#include "runtime/description.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace archipelago::runtime {
namespace {

TEST(DescriptionTest, TheFirstDifferenceIsNamed) {
  const Description syncer = {{"a.one", "1"}, {"b.two", "2"}, {"c.three", "x"}};
  EXPECT_EQ(difference(syncer, syncer), std::nullopt);
  EXPECT_EQ(difference({{"a.one", "1"}, {"b.two", "3"}, {"c.three", "x"}}, syncer),
            "b.two is 3 here and 2 at the syncer");
  EXPECT_EQ(difference({{"a.one", "1"}, {"b.two", ""}, {"c.three", "y"}}, syncer),
            "b.two is not set here and 2 at the syncer, and 1 more differ");
}

TEST(DescriptionTest, WhatOneSideDoesNotKnowIsADifference) {
  EXPECT_EQ(difference({{"a", "1"}}, {}), "a is 1 here and unknown at the syncer");
  EXPECT_EQ(difference({}, {{"a", "1"}}), "a is unknown here and 1 at the syncer");
}

TEST(DescriptionTest, ComesBackFromText) {
  const Description one = {{"data.path", "h\"\\ö.h5"}, {"out", ""}, {"no.utf8", "\xff\xc3"}};
  EXPECT_EQ(description_from(to_text(one)), one);
  EXPECT_THROW(description_from("{"), Error);
  EXPECT_THROW(description_from("[1]"), Error);
}

}  // namespace
}  // namespace archipelago::runtime
