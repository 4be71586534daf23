#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/cuda/scratch.h"

// Each file that sees the frontend's own headers takes half a minute to compile.
namespace cudnn_frontend::graph {
class Graph;
}

namespace archipelago::kernels::cuda {

using DnnGraph = std::shared_ptr<cudnn_frontend::graph::Graph>;

// A graph over bf16 that adds up in f32, with nothing in it yet.
DnnGraph empty_dnn_graph();

// Gives the graph its plan for the handle's GPU or, without a handle, for the one whose properties
// the graph holds. The reason where there is none, else "". `deterministic`: none whose results may
// differ between runs.
std::string find_plan(const DnnGraph& graph, cudnnHandle_t handle, bool deterministic);

// cuDNN on one stream: the one place that calls it.
class Dnn {
 public:
  explicit Dnn(cudaStream_t stream);
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  // The graph with its plan for this GPU, as find_plan(); null where there is none, which is logged
  // as "cuDNN has no `what` (its reason); `instead`".
  DnnGraph planned(DnnGraph graph, bool deterministic, const std::string& what,
                   const std::string& instead);

  // Queues the work of a graph with a plan; `memory` by the tensors' unique numbers.
  void run(const DnnGraph& graph, std::unordered_map<std::int64_t, void*> memory,
           const std::string& doing);

  cudaStream_t stream() const { return stream_; }

 private:
  struct Destroy {
    using pointer = cudnnHandle_t;
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };

  cudaStream_t stream_;
  std::unique_ptr<cudnnHandle_t, Destroy> handle_;
  Scratch workspace_;
};

// cuDNN takes inputs and outputs alike.
inline void* dnn_pointer(const void* memory) { return const_cast<void*>(memory); }

}  // namespace archipelago::kernels::cuda
