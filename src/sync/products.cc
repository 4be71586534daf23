#include "sync/products.h"

#include <cmath>

#include "sync/lines.h"

namespace archipelago::sync {
namespace {

constexpr std::int64_t kChunksPerSum = 16;  // that single-precision sums run over
constexpr int kTile = 4;

// Differences of up to kGramLearners learners from theta over one chunk, a row each; rows of
// learners that do not exist and the rest of a short chunk are zero.
using Rows = std::array<std::array<float, kChunk>, kGramLearners>;

using Sums = std::array<std::array<Line, kGramLearners>, kGramLearners>;

Line load_kept(const float* values) {
  Line line = load(values);
  keep_in_register(line);
  return line;
}

// Adds the inner products of four rows with one another, lane by lane.
void add_products(const Rows& rows, int first, Sums& sums) {
  Line s01 = sums[first][first + 1];
  Line s02 = sums[first][first + 2];
  Line s03 = sums[first][first + 3];
  Line s12 = sums[first + 1][first + 2];
  Line s13 = sums[first + 1][first + 3];
  Line s23 = sums[first + 2][first + 3];
  for (std::int64_t k = 0; k < kChunk; k += kLanes) {
    const Line r0 = load_kept(&rows[first][k]);
    const Line r1 = load_kept(&rows[first + 1][k]);
    const Line r2 = load_kept(&rows[first + 2][k]);
    const Line r3 = load_kept(&rows[first + 3][k]);
    s01 += r0 * r1;
    s02 += r0 * r2;
    s03 += r0 * r3;
    s12 += r1 * r2;
    s13 += r1 * r3;
    s23 += r2 * r3;
  }
  sums[first][first + 1] = s01;
  sums[first][first + 2] = s02;
  sums[first][first + 3] = s03;
  sums[first + 1][first + 2] = s12;
  sums[first + 1][first + 3] = s13;
  sums[first + 2][first + 3] = s23;
}

// Adds the inner products of four rows with four others, lane by lane.
void add_products(const Rows& rows, int first, int second, Sums& sums) {
  Line tile[kTile][kTile];
  for (int a = 0; a < kTile; ++a) {
    for (int b = 0; b < kTile; ++b) tile[a][b] = sums[first + a][second + b];
  }
  for (std::int64_t k = 0; k < kChunk; k += kLanes) {
    const Line r0 = load_kept(&rows[second][k]);
    const Line r1 = load_kept(&rows[second + 1][k]);
    const Line r2 = load_kept(&rows[second + 2][k]);
    const Line r3 = load_kept(&rows[second + 3][k]);
    for (int a = 0; a < kTile; ++a) {
      const Line left = load_kept(&rows[first + a][k]);
      tile[a][0] += left * r0;
      tile[a][1] += left * r1;
      tile[a][2] += left * r2;
      tile[a][3] += left * r3;
    }
  }
  for (int a = 0; a < kTile; ++a) {
    for (int b = 0; b < kTile; ++b) sums[first + a][second + b] = tile[a][b];
  }
}

// Adds the chunk's squared norms and inner products.
void add_chunk(const MergeTask& task, std::int64_t begin, std::int64_t size, Rows& rows,
               std::array<Squares, kGramLearners>& squares, Sums& sums) {
  const int learners = static_cast<int>(task.learners.size());
  for (int i = 0; i < learners; ++i) {
    subtract(task.theta + begin, task.learners[i].values + begin, size, rows[i].data(), squares[i]);
    std::fill(rows[i].begin() + size, rows[i].end(), 0.0F);
  }
  for (int first = 0; first < learners; first += kTile) {
    add_products(rows, first, sums);
    for (int second = first + kTile; second < learners; second += kTile) {
      add_products(rows, first, second, sums);
    }
  }
}

void add_gram(const MergeTask& task, Range range, Gram& gram) {
  alignas(64) Rows rows{};
  std::array<Squares, kGramLearners> squares{};
  const int rows_used = (static_cast<int>(task.learners.size()) + kTile - 1) / kTile * kTile;
  Sums sums;
  while (range.begin < range.end) {
    const std::int64_t end = std::min(range.begin + kChunksPerSum * kChunk, range.end);
    for (int a = 0; a < rows_used; ++a) std::fill_n(sums[a].begin(), rows_used, Line{});
    for (; range.begin < end; range.begin += kChunk) {
      add_chunk(task, range.begin, std::min(kChunk, end - range.begin), rows, squares, sums);
    }
    for (int a = 0; a < rows_used; ++a) {
      for (int b = a + 1; b < rows_used; ++b) gram[a][b] += sum_lanes(sums[a][b]);
    }
  }
  for (int i = 0; i < kGramLearners; ++i) gram[i][i] += squares[i].total();
}

}  // namespace

Gram gram_of(const MergeTask& task, const MergePiece& piece) {
  std::vector<Gram> partial(blocks_of(piece));
  for_each_block(piece, task.threads, [&](std::int64_t block, Range range) {
    partial[block] = {};
    add_gram(task, range, partial[block]);
  });
  Gram total{};
  for (const Gram& gram : partial) {
    for (int a = 0; a < kGramLearners; ++a) {
      for (int b = a; b < kGramLearners; ++b) total[a][b] += gram[a][b];
    }
  }
  return total;
}

std::vector<double> norms_of(const MergeTask& task, const MergePiece& piece) {
  const std::size_t learners = task.learners.size();
  std::vector<double> partial(blocks_of(piece) * learners);
  for_each_block(piece, task.threads, [&](std::int64_t block, Range range) {
    std::vector<Squares> squares(learners);
    for (std::int64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const std::int64_t size = std::min(kChunk, range.end - begin);
      for (std::size_t i = 0; i < learners; ++i) {
        subtract(task.theta + begin, task.learners[i].values + begin, size, nullptr, squares[i]);
      }
    }
    for (std::size_t i = 0; i < learners; ++i) {
      partial[block * learners + i] = squares[i].total();
    }
  });
  std::vector<double> norms(learners);
  for (std::size_t k = 0; k < partial.size(); ++k) norms[k % learners] += partial[k];
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace archipelago::sync
