#include "data/prepare_text.h"

#include <system_error>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"

namespace archipelago::data {
namespace {

void require_file(const std::filesystem::path& file) {
  std::error_code error;  // whoever reads it will say
  const auto type = std::filesystem::status(file, error).type();
  if (type == std::filesystem::file_type::directory) {
    throw Error(ExitCode::bad_data, "cannot read " + file.string() +
                                        ": it is a folder; give its files, e.g. by $(find " +
                                        file.string() + " -type f | sort)");
  }
  if (type == std::filesystem::file_type::character || type == std::filesystem::file_type::block) {
    throw Error(ExitCode::bad_data, "cannot read " + file.string() +
                                        ": it is a device, which may have no end; give a file or "
                                        "a pipe");
  }
}

void require_unpacked(std::string_view content, const std::filesystem::path& file) {
  constexpr std::string_view kGzip = "\x1f\x8b\x08";
  if (!content.starts_with(kGzip)) return;
  throw Error(ExitCode::bad_data,
              file.string() + " is no text, gzip has compressed it; unpack it first (gunzip)");
}

std::string read_all(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) require_file(file);
  std::string text;
  try {
    for (const std::filesystem::path& file : files) {
      const std::string content = read_file(file);
      require_unpacked(content, file);
      text += content;
    }
  } catch (const std::system_error& error) {
    throw Error(ExitCode::bad_data, error.what());
  }
  return text;
}

std::size_t validation_start(std::string_view text, double share) {
  const auto exact =
      text.size() - static_cast<std::size_t>(static_cast<double>(text.size()) * share);
  if (exact == 0 || exact >= text.size()) return exact;
  const std::size_t line_end = text.find('\n', exact - 1);
  const bool last_line = line_end == std::string_view::npos || line_end + 1 == text.size();
  return last_line ? exact : line_end + 1;
}

std::vector<Merge> merges_for(std::string_view train, std::int64_t vocabulary) {
  std::vector<Merge> merges = train_merges(train, vocabulary);
  const auto reached = kByteIds + static_cast<std::int64_t>(merges.size());
  if (reached < vocabulary) {
    throw Error(ExitCode::bad_data, "the text repeats too little for a vocabulary of " +
                                        std::to_string(vocabulary) + "; it is enough for " +
                                        std::to_string(reached));
  }
  return merges;
}

}  // namespace

TokenFile prepare_text(const PrepareText& request) {
  const std::string text = read_all(request.files);
  const std::size_t cut = validation_start(text, request.validation);
  const std::string_view train = std::string_view(text).substr(0, cut);
  const std::string_view validation = std::string_view(text).substr(cut);
  if (train.empty() || (validation.empty() && request.validation > 0)) {
    throw Error(ExitCode::bad_data,
                "a text of " + std::to_string(text.size()) + " bytes is too short to be split");
  }
  TokenFile file;
  file.vocabulary = request.vocabulary;
  file.merges = merges_for(train, request.vocabulary);
  Tokenizer tokenizer(file.merges);
  file.train = tokenizer.encode(train);
  file.validation = tokenizer.encode(validation);
  file.train_bytes = static_cast<std::int64_t>(train.size());
  file.validation_bytes = static_cast<std::int64_t>(validation.size());
  file.provenance = {.source = request.source,
                     .licence = request.licence,
                     .text_digest = to_hex(checksum(std::as_bytes(std::span(text))))};
  return file;
}

}  // namespace archipelago::data
