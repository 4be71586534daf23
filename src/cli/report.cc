#include <filesystem>
#include <iostream>
#include <set>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "core/error.h"
#include "core/file.h"
#include "report/history.h"
#include "report/page.h"

namespace archipelago::cli {
namespace {

constexpr Usage kUsage{
    .synopsis = "archipelago report RUN [RUN ...] [options]",
    .description =
        "One HTML page that needs nothing else: the figures of one run, or of several beside each\n"
        "other, charts of losses, speeds, waits and merges, and who lived and died when. A run "
        "may\n"
        "still go on. Without --out the page is RUN/report.html, written anew each time.",
    .positional = 1,
    .most_positional = 64};

void require_distinct(const std::vector<std::string>& folders) {
  std::set<std::filesystem::path> seen;
  for (const std::string& folder : folders) {
    std::error_code error;  // what is wrong with it is told where it is read
    const auto path = std::filesystem::canonical(folder, error);
    if (!error && !seen.insert(path).second) {
      throw Error(ExitCode::usage, folder + " is given twice; leave one of the two out");
    }
  }
}

}  // namespace

int run_report(std::span<const std::string> arguments) {
  std::string out;
  bool force = false;
  const std::vector<config::Option> options = {
      config::verbatim_text("out", out, "FILE", "the page"),
      config::flag("force", force, "replace the file of --out")};
  const auto folders = read_arguments(kUsage, options, arguments);
  if (!folders) return 0;
  if (out.empty() && folders->size() > 1) {
    throw Error(ExitCode::usage, "which file for a page of several runs? add --out FILE");
  }
  require_distinct(*folders);
  const std::filesystem::path page = out.empty()
                                         ? std::filesystem::path(folders->front()) / "report.html"
                                         : std::filesystem::path(out);
  if (!out.empty()) require_new_file(page, force, {});

  std::vector<report::History> runs;
  for (const std::string& folder : *folders) runs.push_back(report::read_history(folder));
  write_file(page, report::page_of(runs), Durability::unflushed);
  std::cout << page.string() << '\n';
  return 0;
}

}  // namespace archipelago::cli
