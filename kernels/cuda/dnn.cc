#include "kernels/cuda/dnn.h"

#include <cudnn_frontend.h>

#include "core/log.h"
#include "kernels/cuda/check.h"

namespace archipelago::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

void check_dnn(cudnnStatus_t status, const std::string& doing) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN", cudnnGetErrorString(status), doing);
}

}  // namespace

DnnGraph empty_dnn_graph() {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

std::string find_plan(const DnnGraph& graph, cudnnHandle_t handle, bool deterministic) {
  fe::error_t error = graph->validate();
  if (error.is_good()) error = graph->build_operation_graph(handle);
  if (error.is_good()) error = graph->create_execution_plans({fe::HeurMode_t::A});
  if (error.is_good() && deterministic) {
    graph->deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  }
  if (error.is_good()) error = graph->check_support();
  if (error.is_good()) error = graph->build_plans();
  return error.is_good() ? "" : "cuDNN says: " + error.get_message();
}

Dnn::Dnn(cudaStream_t stream) : stream_(stream) {
  cudnnHandle_t handle = nullptr;
  check_dnn(cudnnCreate(&handle), "starting");
  handle_.reset(handle);
  check_dnn(cudnnSetStream(handle, stream), "choosing its stream");
}

DnnGraph Dnn::planned(DnnGraph graph, bool deterministic, const std::string& what,
                      const std::string& instead) {
  const std::string problem = find_plan(graph, handle_.get(), deterministic);
  if (problem.empty()) return graph;
  log_warning("cuDNN has no " + what + " (" + problem + "); " + instead);
  return nullptr;
}

void Dnn::run(const DnnGraph& graph, std::unordered_map<std::int64_t, void*> memory,
              const std::string& doing) {
  void* workspace = workspace_.reserve<char>(graph->get_workspace_size());
  fe::error_t error = graph->execute(handle_.get(), memory, workspace);
  if (error.is_bad()) fail("cuDNN", error.get_message(), doing);
}

}  // namespace archipelago::kernels::cuda
