#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace archipelago::report {

// A run's folder with two learners, of which the second died once, stopped and gone on with once:
//   launch 1: learner 0 makes steps at 1, 2 and 3 s, learner 1 at 1 s, dies at 1.5 s, comes back
//   at 2.5 s one step behind; launch 2: a step each at 0.5 s and 1 s.
class RecordedRun {
 public:
  explicit RecordedRun(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() / ("archipelago-report-" + name)) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write(
        "metrics.jsonl",
        step(1, 0, 0, 100, 5.0) + step(1.25, 1, 0, 100, 4.0) + step(2, 0, 0, 200, 3.0) +
            R"({"t":2.25,"round":1,"fragment":0,"version":1,"contributors":[0],"wait_s":0.5,"merge_s":0.001})"
            "\n"
            R"({"t":2.4,"validated_round":1,"tokens":250,"val_loss":3.25})"
            "\n" +
            step(2.5, 1, 1, 50, 3.5) + step(3, 0, 0, 300, 2.0) + step(0.5, 0, 1, 400, 1.5) +
            step(1, 1, 2, 150, 1.25) + "{\"t\":1.5,\"learner\":0,\"st");
    write("events.jsonl",
          R"({"settings":{}}
{"t":1,"event":{"type":"island_ready","island":0},"actions":[{"type":"assign","island":0,"learner":0}]}
{"settings":{}}
{"t":1,"event":{"type":"island_ready","island":0},"actions":[{"type":"assign","island":0,"learner":0}]}
{"t":2,"event":{"type":"island_ready","island":1},"actions":[{"type":"assign","island":1,"learner":1}]}
{"t":1000000000,"event":{"type":"report","learner":0,"step_seconds":0.5},"actions":[]}
{"t":1500000000,"event":{"type":"island_lost","island":1,"reason":"its leader died"},"actions":[{"type":"assign","island":2,"learner":1}]}
{"t":1550000000,"rejoined":{"learner":1,"seconds":0.05}}
{"t":1600000000,"event":{"type":"island_lost","island":3,"reason":"a spare died"},"actions":[]}
{"settings":{}}
{"t":1,"event":{"type":"island_ready","island":0},"actions":[{"type":"assign","island":0,"learner":0}]}
{"t":500000000,"event":{"type":"report","learner":0,"step_seconds":0.5},"actions":[]}
{"t":750000000,"event":{"type":"island_lost","island":0,"reason":"it hung"},"actions":[]}
)");
  }
  ~RecordedRun() { std::filesystem::remove_all(folder_); }
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

 private:
  static std::string step(double t, int learner, int incarnation, int tokens, double loss) {
    return "{\"t\":" + std::to_string(t) + ",\"learner\":" + std::to_string(learner) +
           ",\"incarnation\":" + std::to_string(incarnation) +
           ",\"step\":1,\"tokens\":" + std::to_string(tokens) +
           ",\"loss\":" + std::to_string(loss) + ",\"lr\":" + std::to_string(tokens / 1000.0) +
           ",\"grad_norm\":" + std::to_string(2 * loss) +
           ",\"step_s\":0.5,\"blocked_s\":0.005,\"energy_j\":\"not available\"}\n";
  }

  std::filesystem::path folder_;
};

}  // namespace archipelago::report
