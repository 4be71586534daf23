# add_unit_test(NAME SOURCES a.cc ... LINKS libraries... [TIMEOUT seconds])
# A GoogleTest program in one process, label "unit".
function(add_unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${ARG_LINKS} GTest::gtest_main archipelago_flags)
  # What is tested keeps its optimizations; the tests compile a third faster.
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${ARG_TIMEOUT})
endfunction()

# Each job has more ranks than a small machine has cores: one at a time, one more on hosts of its own
# (namespaces, Slurm), which waits most of its time. The tests of one process run beside them.
set(one_job_at_a_time RESOURCE_LOCK job COST 1000)
set(one_cluster_at_a_time RESOURCE_LOCK cluster COST 2000)

# add_mpi_test(SCRIPT [TIMEOUT seconds])
# A Python script (standard library only) that starts jobs of real ranks, label "mpi". It finds the
# program and mpirun in its environment.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
function(add_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  add_test(NAME mpi_${name}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set_tests_properties(mpi_${name} PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT} ${one_job_at_a_time}
    ENVIRONMENT "TEST_PROGRAM=$<TARGET_FILE:archipelago>;TEST_MPIRUN=${ARCHIPELAGO_MPI_PREFIX}/bin/mpirun")
endfunction()
