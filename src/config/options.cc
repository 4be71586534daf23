#include "config/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>

#include "core/error.h"

namespace archipelago::config {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

void append(std::vector<Option>& all, std::vector<Option> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<Option> top_options(RunConfig& c) {
  return {
      text("out", c.out, "FOLDER", "the run's folder, made if it does not exist"),
      flag("resume", c.resume, "go on from the newest checkpoint in the run's folder"),
      flag("profile", c.profile,
           "log where each rank's time goes, and name the parts for a GPU's profiler"),
      choice("method", c.method,
             {"decoupled", "data-parallel", "elastic-data-parallel", "diloco", "streaming-diloco"},
             "how learners are kept together"),
      choice("device", c.device, {"cpu", "cuda", "auto"}, "what learners compute on"),
      choice("record", c.record, {"decisions", "fragments"},
             "what replay can do again: the decisions, or with the fragments also Theta"),
      text("chaos", c.chaos, "PLAN", "what to break and when (docs/reliability.md)"),
  };
}

std::vector<Option> data_options(Data& d) {
  return {
      text("data.path", d.path, "FILE", "HDF5 file made by `archipelago prepare`"),
      integer("data.shift", d.shift, 0, 65'536,
              "training images are moved by up to so many pixels each way"),
      boolean("data.flip", d.flip, "half of the training images are mirrored"),
  };
}

std::vector<Option> train_options(Train& t) {
  return {
      integer("train.batch", t.batch, 1, 1 << 24, "sequences or images a learner and inner step"),
      integer("train.accumulate", t.accumulate, 1, 1 << 24,
              "parts of a batch that are computed one after the other, to save memory"),
      integer("train.steps", t.steps, 1, kUnbounded, "inner steps a learner"),
      choice("train.optimizer", t.optimizer, {"adamw", "sgd"}, "inner optimizer"),
      choice("train.schedule", t.schedule, {"cosine", "linear", "constant"},
             "learning rate after the warm-up"),
      positive("train.lr", t.lr, 100, "peak inner learning rate"),
      real("train.min_lr", t.min_lr, 0, 1,
           "end of a cosine or linear schedule, as a share of train.lr"),
      integer("train.warmup", t.warmup, 0, kUnbounded, "inner steps of linear warm-up"),
      real("train.weight_decay", t.weight_decay, 0, 100, "on matrices and tables only"),
      real("train.beta1", t.beta1, 0, 0.999999, "decay of AdamW's first moment"),
      real("train.beta2", t.beta2, 0, 0.999999, "decay of AdamW's second moment"),
      real("train.momentum", t.momentum, 0, 0.999999, "momentum of SGD"),
      real("train.clip", t.clip, 0, kNoLimit, "largest global gradient norm; 0: no clipping"),
      integer("train.validation", t.validation, 0, kUnbounded,
              "tokens of the validation split that a loss is taken over; 0: all"),
      integer("train.seed", t.seed, 0, kUnbounded, "seed of everything that is random"),
      integer("train.threads", t.threads, 1, 1024, "OpenMP threads a rank"),
      choice("train.precision", t.precision, {"bf16", "f32"},
             "GPU: of products' operands and of what a layer keeps; a processor's are f32"),
      boolean("train.deterministic", t.deterministic,
              "GPU: the same bits in every run; a processor's always are"),
  };
}

std::vector<Option> sync_options(Sync& s) {
  return {
      integer("sync.learners", s.learners, 1, 4096, "learners M"),
      integer("sync.ranks_per_learner", s.ranks_per_learner, 1, 4096, "MPI ranks of an island"),
      integer("sync.spares", s.spares, 0, 4096, "sleeping islands that replace the lost"),
      integer("sync.syncers", s.syncers, 1, 64, "S, syncers; fragment p is merged by p mod S"),
      integer("sync.standby", s.standby, 0, 1, "standby syncers"),
      boolean("sync.refill", s.refill, "refill the pool of spares by MPI_Comm_spawn, on one host"),
      text("sync.listen", s.listen, "HOST:PORT",
           "where islands that are jobs of their own come in (archipelago join); 0.0.0.0:0: any"),
      positive("sync.interval", s.interval, 1e9, "H, inner steps between two merges of a fragment"),
      integer("sync.fragments", s.fragments, 1, 100'000, "fragments P"),
      real("sync.overlap", s.overlap, 0, 1e9, "tau, inner steps that an exchange may take"),
      integer("sync.quorum", s.quorum, 1, 4096, "K, learners that a round waits for"),
      real("sync.grace", s.grace, 0, 1, "gamma, share of the slack that the grace window uses"),
      real("sync.grace_cap", s.grace_cap, 0, 86'400, "longest grace window, seconds"),
      choice("sync.merge", s.merge, {"rda", "mean"}, "merge rule"),
      positive("sync.outer_lr", s.outer_lr, 100, "eta, outer learning rate"),
      real("sync.outer_momentum", s.outer_momentum, 0, 0.999999, "mu, outer Nesterov momentum"),
      positive("sync.suspect", s.suspect, 86'400,
               "seconds without a report until a learner is left out of quorums"),
      positive("sync.expel", s.expel, 86'400,
               "seconds without a report until a learner's place is given away"),
      real("sync.outlier", s.outlier, 0, kNoLimit,
           "refuse a fragment whose change is this many times its peers' median norm; 0: never"),
  };
}

std::vector<Option> wire_options(Wire& w) {
  return {
      choice("wire.up", w.up, {"f32", "bf16", "int8", "e3m0"},
             "encoding of what learners send; e3m0: 4 bits"),
      choice("wire.down", w.down, {"f32", "bf16", "int8", "e3m0"},
             "encoding of what learners receive"),
  };
}

std::vector<Option> checkpoint_options(Checkpoint& c) {
  return {
      integer("checkpoint.learner_steps", c.learner_steps, 1, kUnbounded,
              "inner steps between two learner checkpoints"),
      integer("checkpoint.global_rounds", c.global_rounds, 1, kUnbounded,
              "rounds between two global checkpoints"),
      integer("checkpoint.global_seconds", c.global_seconds, 0, kUnbounded,
              "seconds after which there is a global checkpoint even of fewer rounds; 0: however "
              "long they take"),
      integer("checkpoint.keep", c.keep, 1, 1'000'000,
              "newest checkpoints of each kind and learner that are kept"),
      integer("checkpoint.keep_every", c.keep_every, 0, kUnbounded,
              "keep for ever the first global checkpoint of each so many rounds; 0: none"),
      boolean("checkpoint.validate", c.validate,
              "work out the validation loss of global checkpoints while training goes on"),
  };
}

// What a learner may have its own of: data, batch, optimizer, schedule, threads, device.
constexpr std::string_view kLocal[] = {
    "device",         "model.recompute",  "data.path",          "data.shift",     "data.flip",
    "train.batch",    "train.accumulate", "train.optimizer",    "train.schedule", "train.lr",
    "train.min_lr",   "train.warmup",     "train.weight_decay", "train.beta1",    "train.beta2",
    "train.momentum", "train.clip",       "train.threads"};

std::vector<Option> shared_options(RunConfig& config) {
  std::vector<Option> all = top_options(config);
  append(all, model_options(config.model));
  append(all, data_options(config.data));
  append(all, train_options(config.train));
  append(all, sync_options(config.sync));
  append(all, wire_options(config.wire));
  append(all, checkpoint_options(config.checkpoint));
  return all;
}

// Sets one of the shared options and returns its value as it is written.
std::string set_shared(RunConfig& config, const std::string& name, const std::string& value) {
  const auto options = shared_options(config);
  const auto option = std::ranges::find(options, name, &Option::name);
  option->set(value);
  return option->get();
}

// The option that gives `learner` a value of its own of `shared`.
Option local_option(RunConfig& config, int learner, const Option& shared) {
  const std::string name = shared.name;
  return {.name = "learner." + std::to_string(learner) + '.' + name,
          .argument = shared.argument,
          .help = "of learner " + std::to_string(learner) + ": " + shared.help,
          .default_value = {},
          .set =
              [&config, learner, name](const std::string& text) {
                RunConfig scratch;
                config.learners[learner][name] = set_shared(scratch, name, text);
              },
          .get = [&config, learner, name] { return config.learners.at(learner).at(name); }};
}

// The options to read from where `learners` may have sections of their own.
std::vector<Option> readable_options(RunConfig& config, const std::set<int>& learners) {
  std::vector<Option> all = shared_options(config);
  const std::vector<Option> shared = all;
  for (const int learner : learners) {
    for (const Option& option : shared) {
      if (std::ranges::count(kLocal, option.name) > 0) {
        all.push_back(local_option(config, learner, option));
      }
    }
  }
  return all;
}

// Adds the learner N of a text that starts with `prefix` and "N" and `end`.
void add_named(std::set<int>& learners, std::string_view text, std::string_view prefix, char end) {
  if (!text.starts_with(prefix)) return;
  text.remove_prefix(prefix.size());
  int learner = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), learner);
  const bool ends = rest != text.data() + text.size() && *rest == end;
  const bool canonical =
      std::to_string(learner).size() == static_cast<std::size_t>(rest - text.data());
  if (error == std::errc{} && ends && canonical && learner >= 0) learners.insert(learner);
}

void add_named_in_file(std::set<int>& learners, const IniFile& file) {
  std::istringstream lines(file.text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(" \t");
    if (first != std::string::npos) {
      add_named(learners, std::string_view(line).substr(first), "[learner.", ']');
    }
  }
}

// Learners that command line or environment name.
std::set<int> named_learners(std::span<const std::string> arguments) {
  std::set<int> learners;
  for (const std::string& argument : arguments) add_named(learners, argument, "--learner.", '.');
  for (char** variable = environ; *variable != nullptr; ++variable) {
    add_named(learners, *variable, "ARCHIPELAGO_LEARNER_", '_');
  }
  return learners;
}

// Radford et al. 2019, table 2, with the heads of the published models.
struct NamedSize {
  std::string_view name;
  std::int64_t layers, width, heads;
};
constexpr NamedSize kSizes[] = {
    {"124M", 12, 768, 12}, {"355M", 24, 1024, 16}, {"774M", 36, 1280, 20}, {"1.5B", 48, 1600, 25}};
constexpr std::int64_t kGpt2Context = 1024;
constexpr std::int64_t kGpt2Vocabulary = 50'257;

// Sets the options that a size stands for, which later ones may change again.
Option size_option(Model& m) {
  Option option = choice("model.size", m.size, {"custom", "124M", "355M", "774M", "1.5B"},
                         "one of GPT-2's sizes; sets the five options that follow");
  option.set = [&m, set = option.set](const std::string& text) {
    set(text);
    const auto size = std::ranges::find(kSizes, std::string_view(text), &NamedSize::name);
    if (size == std::end(kSizes)) return;
    m.layers = size->layers;
    m.width = size->width;
    m.heads = size->heads;
    m.context = kGpt2Context;
    m.vocabulary = kGpt2Vocabulary;
  };
  return option;
}

// Says `problem` with both values unless `holds`.
void require(std::vector<std::string>& problems, bool holds, std::string problem) {
  if (!holds) problems.push_back(std::move(problem));
}

template <class Number>
std::string valued(const char* name, Number value) {
  std::ostringstream stream;
  stream << name << " (" << value << ')';
  return stream.str();
}

void append_problems_of_one(std::vector<std::string>& problems, const RunConfig& c) {
  const std::int64_t ranks = c.sync.ranks_per_learner;
  const std::string of_ranks = valued("sync.ranks_per_learner", ranks);
  if (c.train.accumulate == 1) {
    require(problems, c.train.batch % ranks == 0,
            valued("train.batch", c.train.batch) + " must be a multiple of " + of_ranks);
  } else {
    require(problems, c.train.batch % (ranks * c.train.accumulate) == 0,
            valued("train.batch", c.train.batch) + " must be a multiple of " + of_ranks +
                " times " + valued("train.accumulate", c.train.accumulate));
  }
}

std::vector<std::string> problems_of(const RunConfig& c) {
  std::vector<std::string> problems;
  require(problems, c.model.width % c.model.heads == 0,
          valued("model.width", c.model.width) + " must be a multiple of " +
              valued("model.heads", c.model.heads));
  append_problems_of_one(problems, c);
  require(problems, c.sync.quorum <= c.sync.learners,
          valued("sync.quorum", c.sync.quorum) + " must not be above " +
              valued("sync.learners", c.sync.learners));
  require(problems, c.sync.syncers == 1 || c.sync.standby == 0,
          valued("sync.syncers", c.sync.syncers) +
              " can't have a standby: leave sync.standby out, or have one syncer");
  require(problems, c.sync.syncers == 1 || c.record == "decisions",
          valued("sync.syncers", c.sync.syncers) +
              " can't be used with record fragments: no syncer has them all");
  require(problems, has_syncer(c) || c.sync.syncers == 1,
          "method (" + c.method + ") can't be used with sync.syncers: it has none");
  require(problems, has_syncer(c) || c.sync.standby == 0,
          "method (" + c.method + ") can't be used with sync.standby: it has no syncer");
  require(problems, c.sync.listen.empty() || (has_syncer(c) && c.sync.syncers == 1),
          "sync.listen needs method decoupled with one syncer: leave it out, or sync.syncers");
  require(problems, c.sync.overlap <= c.sync.interval,
          valued("sync.overlap", c.sync.overlap) + " must not be above " +
              valued("sync.interval", c.sync.interval));
  require(problems, c.sync.suspect < c.sync.expel,
          valued("sync.suspect", c.sync.suspect) + " must be below " +
              valued("sync.expel", c.sync.expel));
  const double budget = static_cast<double>(c.train.steps) * static_cast<double>(c.train.batch) *
                        static_cast<double>(c.model.context) * c.sync.learners;
  require(problems, budget < 0x1p62,
          valued("train.steps", c.train.steps) +
              " times learners, batch and context are more tokens than can be counted");
  require(
      problems, has_syncer(c) || c.learners.empty(),
      "method (" + c.method + ") can't be used with options of single learners: all step alike");
  require(problems, has_syncer(c) || (c.wire.up == "f32" && c.wire.down == "f32"),
          "method (" + c.method + ") can't be used with wire.up or wire.down: it sends f32");
  require(problems, outlives_deaths(c) || c.chaos.empty(),
          "method (" + c.method + ") can't be used with chaos: it does not outlive a fault");
  require(problems, has_syncer(c) || c.record == "decisions",
          "method (" + c.method + ") can't be used with record fragments: nothing is merged");
  require(problems, has_syncer(c) || !c.checkpoint.validate,
          "method (" + c.method +
              ") can't be used with checkpoint.validate: it writes its only "
              "checkpoint at the end");
  require(
      problems, has_syncer(c) || !c.resume,
      "method (" + c.method + ") can't be used with resume: it writes no checkpoints on the way");
  require(problems, c.sync.outlier == 0 || c.sync.outlier > 1,
          valued("sync.outlier", c.sync.outlier) + " must be 0 or above 1");
  for (const auto& [learner, options] : c.learners) {
    const std::string section = "[learner." + std::to_string(learner) + "] ";
    require(problems, learner < c.sync.learners,
            section + "is for none of the learners, which are numbered from 0; " +
                valued("sync.learners", c.sync.learners));
    std::vector<std::string> own;
    append_problems_of_one(own, for_learner(c, learner));
    for (const std::string& problem : own) problems.push_back(section + problem);
  }
  return problems;
}

// The INI files that the arguments name; where --resume comes without any, the run's own.
std::vector<IniFile> load_ini_files(std::span<const std::string> arguments,
                                    std::span<const Option> more) {
  RunConfig config;
  auto options = readable_options(config, named_learners(arguments));
  options.insert(options.end(), more.begin(), more.end());
  read_environment(options);
  auto paths = read_command_line(options, arguments, ConfigFiles::allowed).config_files;
  if (config.resume && !config.out.empty() && paths.empty()) {
    const auto own_file = std::filesystem::path(config.out) / "config.ini";
    if (std::filesystem::exists(own_file)) paths.push_back(own_file);
  }
  std::vector<IniFile> files;
  for (const auto& path : paths) files.push_back(load_ini_file(path));
  return files;
}

}  // namespace

std::vector<Option> model_options(Model& m) {
  return {
      choice("model.kind", m.kind, {"gpt", "moe", "vit", "linear"}, "network"),
      size_option(m),
      integer("model.layers", m.layers, 1, 10'000, "blocks L"),
      integer("model.width", m.width, 1, 1 << 20, "channels C, a multiple of model.heads"),
      integer("model.heads", m.heads, 1, 1 << 16, "attention heads"),
      integer("model.context", m.context, 1, 1 << 24,
              "positions T; images: set to what the model makes of them"),
      integer("model.vocabulary", m.vocabulary, 0, 65'536,
              "vocabulary V, or classes of images; 0: as the data says"),
      integer("model.experts", m.experts, 1, 65'536, "moe: experts a block"),
      integer("model.experts_per_token", m.experts_per_token, 1, 65'536,
              "moe: experts that each position goes through"),
      integer("model.expert_width", m.expert_width, 0, 1 << 24,
              "moe: width inside an expert; 0: four times model.width"),
      real("model.balance_loss", m.balance_loss, 0, 1e6, "moe: weight of the load-balancing loss"),
      real("model.router_z_loss", m.router_z_loss, 0, 1e6, "moe: weight of the router's z loss"),
      integer("model.image", m.image, 0, 65'536, "pixels a side of an image; 0: as the data says"),
      integer("model.image_channels", m.image_channels, 0, 1024,
              "1 grey, 3 colours; 0: as the data says"),
      integer("model.patch", m.patch, 1, 65'536, "vit: pixels a side of a patch"),
      boolean("model.recompute", m.recompute,
              "compute activations again in the backward pass, to save memory"),
  };
}

std::vector<Option> run_options(RunConfig& config) {
  std::vector<Option> all = shared_options(config);
  const std::vector<Option> shared = all;
  for (const auto& [learner, options] : config.learners) {
    for (const auto& [name, value] : options) {
      all.push_back(local_option(config, learner, *std::ranges::find(shared, name, &Option::name)));
    }
  }
  return all;
}

std::vector<std::string> local_option_names() { return {std::begin(kLocal), std::end(kLocal)}; }

RunConfig for_learner(const RunConfig& config, int learner) {
  RunConfig own = config;
  own.learners.clear();
  if (const auto found = config.learners.find(learner); found != config.learners.end()) {
    for (const auto& [name, value] : found->second) set_shared(own, name, value);
  }
  return own;
}

RunConfig parse_run_config(std::span<const std::string> arguments) {
  const RunConfig defaults;
  return parse_run_config(arguments, defaults);
}

RunConfig parse_run_config(std::span<const std::string> arguments, const RunConfig& defaults,
                           std::span<const Option> more) {
  RunConfig config = defaults;
  const std::vector<IniFile> files = load_ini_files(arguments, more);
  std::set<int> learners = named_learners(arguments);
  for (const IniFile& file : files) add_named_in_file(learners, file);
  auto options = readable_options(config, learners);
  options.insert(options.end(), more.begin(), more.end());
  for (const IniFile& file : files) read_ini_file(options, file);
  read_environment(options);
  const auto positional = read_command_line(options, arguments, ConfigFiles::allowed).positional;
  if (!positional.empty()) {
    throw Error(ExitCode::usage, "unexpected argument '" + positional.front() + "'");
  }
  check(config);
  return config;
}

void check(const RunConfig& config) {
  std::string line;
  for (const std::string& problem : problems_of(config))
    line += (line.empty() ? "" : "; ") + problem;
  if (!line.empty()) throw Error(ExitCode::configuration, line);
}

std::string write_ini(const RunConfig& config) {
  RunConfig copy = config;
  auto options = run_options(copy);
  std::erase_if(options, [](const Option& option) { return option.name == "resume"; });
  return write_ini(options);
}

std::map<std::string, std::string> to_map(const RunConfig& config) {
  RunConfig copy = config;
  return to_map(run_options(copy));
}

RunConfig from_map(const std::map<std::string, std::string>& values, const std::string& source) {
  RunConfig config;
  std::set<int> learners;
  for (const auto& [name, value] : values) add_named(learners, name, "learner.", '.');
  from_map(readable_options(config, learners), values, source);
  return config;
}

}  // namespace archipelago::config
