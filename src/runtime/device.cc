#include "runtime/device.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "kernels/gpu_address.h"

namespace archipelago::runtime {

void require_device(const config::RunConfig& config) {
  if (config.device != "cuda") return;
  if (!config::has_syncer(config)) {
    throw Error(ExitCode::configuration,
                "--method " + config.method + " computes on CPUs only; use --device cpu or auto");
  }
  if (kernels::cuda_devices() > 0) return;
  throw Error(ExitCode::configuration,
              "--device cuda cannot be used on " + host_name() + ": " + kernels::why_no_cuda() +
                  "; use --device cpu, or auto for a GPU where there is one");
}

kernels::Device choose_device(const config::RunConfig& config, int place) {
  kernels::Device device;
  device.threads = config.train.threads;
  const bool wanted = config.device != "cpu" && config::has_syncer(config);
  const int gpus = wanted ? kernels::cuda_devices() : 0;
  if (gpus == 0) return device;
  device.kind = kernels::Device::Kind::cuda;
  device.index = place % gpus;
  device.precision =
      config.train.precision == "f32" ? kernels::Precision::f32 : kernels::Precision::bf16;
  device.deterministic = config.train.deterministic;
  return device;
}

std::string own_gpu(const config::RunConfig& config, int place) {
  const kernels::Device device = choose_device(config, place);
  if (device.kind != kernels::Device::Kind::cuda) return {};
  return host_name() + " " + kernels::gpu_address(device.index);
}

void require_own_gpu(std::span<const std::string> gpus, std::size_t rank) {
  const std::string& own = gpus[rank];
  if (own.empty() || std::ranges::count(gpus.first(rank), own) == 0) return;
  throw Error(ExitCode::configuration,
              "several ranks of an island are on one GPU, " + own +
                  "; give each its own, choose a lower --sync.ranks_per_learner, or use --device "
                  "cpu");
}

double energy_share(const config::RunConfig& config, const kernels::Device& device, int on_host) {
  const int active = std::min(on_host, config.sync.learners * config.sync.ranks_per_learner);
  if (device.kind == kernels::Device::Kind::cpu) return 1.0 / active;
  return std::min(1.0, static_cast<double>(kernels::cuda_devices()) / active);
}

int ranks_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank) {
  const std::string& host =
      islands[static_cast<std::size_t>(island)][static_cast<std::size_t>(rank)].host;
  int count = 0;
  for (const auto& members : islands) {
    for (const auto& member : members) count += member.host == host ? 1 : 0;
  }
  return count;
}

int place_on_host(const std::vector<std::vector<island::Member>>& islands, int island, int rank) {
  const std::string& host =
      islands[static_cast<std::size_t>(island)][static_cast<std::size_t>(rank)].host;
  int place = 0;
  for (int i = 0; i <= island; ++i) {
    const auto& members = islands[static_cast<std::size_t>(i)];
    const auto count = i < island ? members.size() : static_cast<std::size_t>(rank);
    for (std::size_t r = 0; r < count; ++r) place += members[r].host == host ? 1 : 0;
  }
  return place;
}

}  // namespace archipelago::runtime
