# archipelago_library(NAME SOURCES a.cc ... [LINKS libraries...])
# One static library for the folder it is called in. LINKS names the folders it may include from
# (as archipelago::FOLDER) and outside libraries; headers are included as "FOLDER/name.h".
function(archipelago_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(archipelago_${name} STATIC ${ARG_SOURCES})
  add_library(archipelago::${name} ALIAS archipelago_${name})
  target_include_directories(archipelago_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(archipelago_${name} PUBLIC ${ARG_LINKS} PRIVATE archipelago_flags)
endfunction()
