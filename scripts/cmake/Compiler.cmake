# Flags of every target: C++20, warnings as errors, the machine's own instructions, sanitizers.
option(ARCHIPELAGO_NATIVE "Compile for this machine's processor" ON)
set(ARCHIPELAGO_SANITIZERS "" CACHE STRING "e.g. address,undefined or thread")

add_library(archipelago_flags INTERFACE)
target_compile_features(archipelago_flags INTERFACE cxx_std_20)
target_compile_options(archipelago_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>")
if(ARCHIPELAGO_NATIVE)
  target_compile_options(archipelago_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-march=native>)
endif()
if(ARCHIPELAGO_SANITIZERS)
  # gcc 12 sees uninitialized members in its own <regex> under sanitizers.
  target_compile_options(archipelago_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${ARCHIPELAGO_SANITIZERS};-fno-omit-frame-pointer;-Wno-maybe-uninitialized>")
  target_link_options(archipelago_flags INTERFACE -fsanitize=${ARCHIPELAGO_SANITIZERS})
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
