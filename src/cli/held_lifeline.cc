#include "cli/held_lifeline.h"

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/file.h"
#include "core/log.h"
#include "runtime/lifeline.h"
#include "runtime/run_folder.h"

namespace archipelago::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kBeatSeconds = 1;
constexpr double kFirstWordSeconds = 10;  // from mpirun's end to the syncer's word that it goes on
constexpr double kSilenceSeconds = 30;    // a living syncer writes its status every second

// One word for each start of each launcher.
std::string name_of_start() {
  static int starts = 0;
  return host_name() + '.' + std::to_string(::getpid()) + '.' + std::to_string(++starts);
}

}  // namespace

HeldLifeline::HeldLifeline(fs::path folder, const fs::path& scratch)
    : folder_(std::move(folder)),
      file_(runtime::lifeline_file(folder_, scratch)),
      launcher_(name_of_start()) {
  std::error_code error;  // there is none
  fs::remove(runtime::lifeline_log(folder_), error);
  try {
    runtime::write_beat(file_, {launcher_, count_});
    held_ = true;
  } catch (const std::system_error&) {
    // The run will say that its folder cannot be written to.
  }
}

void HeldLifeline::beat(double now) {
  if (!held_ || now - beaten_ < kBeatSeconds) return;
  beaten_ = now;
  try {
    runtime::write_beat(file_, {launcher_, ++count_});
  } catch (const std::system_error&) {
    // Ranks wait for a minute.
  }
}

void HeldLifeline::release() noexcept {
  if (!held_) return;
  held_ = false;
  std::error_code error;  // it is gone with the folder
  fs::remove(file_, error);
}

bool HeldLifeline::run_goes_on(double now) {
  if (!held_) return false;
  copy_log();
  const fs::path file = runtime::RunFolder(folder_).status();
  const auto identity = identity_of(file);
  if (!heard_ || identity != status_) {
    const auto status = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    const bool told = status.is_object() && status.contains("launcher");
    if (told || !heard_) heard_ = now;
    goes_on_ = goes_on_ || told;
    status_ = identity;
  }
  return now - *heard_ < (goes_on_ ? kSilenceSeconds : kFirstWordSeconds);
}

void HeldLifeline::copy_log() {
  std::ifstream log(runtime::lifeline_log(folder_), std::ios::binary);
  if (!log.seekg(static_cast<std::streamoff>(copied_))) return;
  const std::string text(std::istreambuf_iterator<char>(log), {});
  copied_ += text.size();
  std::cerr << filter_.pass(text) << std::flush;
}

}  // namespace archipelago::cli
