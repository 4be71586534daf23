# Writes OUTPUT, a header with kGitHash of SOURCE_DIR. Run at every build (cmake -P); the file changes
# only when the hash does.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT hash)
  set(hash "no git")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[#pragma once
inline constexpr char kGitHash[] = "@hash@";
]] @ONLY)
