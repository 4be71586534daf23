#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "data/shards.h"

namespace archipelago::data {

enum class Split { train, validation };

// What a learner takes from its data set: dealt out to how many shards, in which order, and what is
// done to images.
struct Course {
  std::int64_t context = 1;  // text: tokens of a sequence
  int shards = 1;
  std::uint64_t seed = 1;
  std::int64_t shift = 0;  // images are moved by up to so many pixels each way
  bool flip = false;       // half of the images are mirrored
};

// Text: inputs and targets are (count, context) ids. Images: (count, channels, side, side) and the
// class of each in targets (count).
struct Samples {
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
  std::span<const float> images;
};

// The samples of a course, a batch at a time: a pure function of shard and cursor, so that whoever
// takes a shard up goes on exactly where it was left.
class Batches {
 public:
  virtual ~Batches() = default;

  // One sample of each place; valid until the next call.
  virtual Samples load(std::span<const ShardCursor> places) = 0;
};

// A data file of `archipelago prepare`, read whole into memory.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t vocabulary() const = 0;  // token ids, or classes of images
  // Hash over the content: learners of one run must agree on it.
  virtual std::uint64_t digest() const = 0;
  virtual std::int64_t bytes() const = 0;  // of memory

  // Of the training split, where a text has so many tokens a sequence.
  virtual std::int64_t samples(std::int64_t context) const = 0;

  // Over the training split; the data set must outlive it. Throws Error(bad_data) where there are
  // fewer samples than shards.
  virtual std::unique_ptr<Batches> training(const Course& course) const = 0;
};

enum class Kind { text, images };

// Text or images, as the file says. Throws Error(bad_data) naming the file, what is wrong and the
// command that makes one: of the kind `wanted` where the file is none of them.
std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, Kind wanted = Kind::text);

}  // namespace archipelago::data
