#include "replay/replay.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "config/options.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/readable.h"
#include "replay/theta.h"
#include "runtime/run_folder.h"
#include "sync/machine.h"
#include "sync/tape.h"
#include "sync/tape_file.h"

namespace archipelago::replay {
namespace {

config::RunConfig read_config(const std::filesystem::path& file) {
  const std::vector<std::string> arguments = {"--config", file.string()};
  return config::parse_run_config(arguments);
}

void require_syncer(const config::RunConfig& config) {
  if (config::has_syncer(config)) return;
  throw Error(ExitCode::bad_data, "a run of a method without a syncer (" + config.method +
                                      ") has no decisions to be told again");
}

class Replay {
 public:
  explicit Replay(const runtime::RunFolder& folder)
      : tape_(folder.events()), theta_(folder.path(), read_config(folder.config())) {}

  Replayed run() {
    try {
      while (const auto line = tape_.next()) follow(*line);
      compare_checkpoints();
    } catch (const Error& difference) {
      result_.difference = difference.what();
    }
    result_.superseded = tape_.superseded();
    result_.cuts = tape_.cuts();
    result_.merges = theta_.merges();
    result_.contributions = theta_.contributions();
    result_.theta_unknown = theta_.unknown_because();
    return result_;
  }

 private:
  [[noreturn]] void fail(std::int64_t line, const std::string& problem) const {
    throw Error(ExitCode::bad_data,
                tape_.path().string() + ":" + std::to_string(line) + ": " + problem);
  }

  void follow(const sync::TapeLine& line) {
    try {
      if (line.kind == sync::LineKind::start) {
        start(line);
      } else if (line.kind == sync::LineKind::entry) {
        repeat(line);
      } else {
        take(line);
      }
    } catch (const nlohmann::json::exception& error) {
      fail(line.number, error.what());
    }
  }

  // What `read` gives; where it throws, the line is named.
  template <typename Read>
  auto at(const sync::TapeLine& line, const Read& read) const {
    try {
      return read();
    } catch (const Error& error) {
      fail(line.number, error.what());
    }
  }

  void start(const sync::TapeLine& line) {
    const auto start = at(line, [&] { return sync::decode_start(line.text); });
    at(line, [&] { machine_.emplace(start.settings, start.restored); });
    theta_.start(start.restored.round);
    result_.end.clear();
    ++result_.starts;
  }

  void repeat(const sync::TapeLine& line) {
    if (!machine_) fail(line.number, "an event before any start of the run");
    const auto entry = at(line, [&] { return sync::decode_entry(line.text); });
    if (const auto* merged = std::get_if<sync::Merged>(&entry.event)) theta_.adopt(merged->round);
    if (std::holds_alternative<sync::SyncerReplaced>(entry.event)) theta_.drop_open_merges();
    actions_.clear();
    machine_->handle(entry.time, entry.event, actions_);
    compare(line, entry.actions);
    ++result_.entries;
    result_.decisions += std::ssize(actions_);
    for (const sync::Action& action : actions_) {
      if (const auto* merge = std::get_if<sync::Merge>(&action)) theta_.merge(*merge);
      if (const auto* save = std::get_if<sync::SaveGlobal>(&action)) theta_.save(save->round);
      if (const auto* finish = std::get_if<sync::Finish>(&action)) result_.end = finish->reason;
    }
  }

  void compare(const sync::TapeLine& line, const std::vector<sync::Action>& told) const {
    if (actions_ == told) return;
    const auto [mine, theirs] =
        std::mismatch(actions_.begin(), actions_.end(), told.begin(), told.end());
    const auto text = [](auto action, auto end) {
      return action == end ? std::string("nothing more") : sync::encode_action(*action);
    };
    fail(line.number, "decided then: " + text(theirs, told.end()) +
                          "; decided now: " + text(mine, actions_.end()));
  }

  void take(const sync::TapeLine& line) {
    if (is_nested_too_deeply(line.text)) fail(line.number, "the line is nested too deeply");
    const auto row = nlohmann::json::parse(line.text);
    if (row.contains("takeover")) ++result_.takeovers;
    if (row.contains("contributions")) {
      const auto& life = row["contributions"];
      theta_.begin_life(
          {life.at("life"), life.at("merge"), life.at("outer_lr"), life.at("outer_momentum")});
    }
    if (row.contains("snapshot")) {
      const auto& snapshot = row["snapshot"];
      const std::string told = snapshot.at("theta");
      snapshots_[snapshot.at("round")] = {line.number, told};
      ++result_.snapshots;
      const auto digest = theta_.digest();
      if (!digest) return;
      if (to_hex(*digest) != told) {
        fail(line.number, "Theta's digest was " + told + "; made again it is " + to_hex(*digest));
      }
      ++result_.recomputed;
    }
  }

  // The files of the run that are left, against the last snapshot of their round.
  void compare_checkpoints() {
    for (const auto& [round, snapshot] : snapshots_) {
      const auto digest = theta_.digest_of_checkpoint(round);
      if (!digest) continue;
      if (to_hex(*digest) != snapshot.digest) {
        fail(snapshot.line, "Theta's digest was " + snapshot.digest + "; the checkpoint of round " +
                                std::to_string(round) + " has " + to_hex(*digest));
      }
      ++result_.checkpoints;
    }
  }

  struct Snapshot {
    std::int64_t line = 0;
    std::string digest;
  };

  sync::TapeFile tape_;
  Theta theta_;
  std::optional<sync::Machine> machine_;
  std::vector<sync::Action> actions_;
  std::map<std::int64_t, Snapshot> snapshots_;  // by round
  Replayed result_;
};

}  // namespace

Replayed replay(const std::filesystem::path& run) {
  require_folder(run);
  const runtime::RunFolder folder(run);
  require_syncer(read_config(folder.config()));
  Replayed result = Replay(folder).run();
  if (result.starts == 0 && result.difference.empty()) {
    throw Error(ExitCode::bad_data, folder.events().string() + " holds no run");
  }
  return result;
}

}  // namespace archipelago::replay
