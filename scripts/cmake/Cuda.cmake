# archipelago::cuda: CUDA's runtime, cuBLASLt, cuDNN with its frontend's headers, NCCL. Sets
# ARCHIPELAGO_HAS_CUDA. With ARCHIPELAGO_CUDA=auto (the default) a build where one of them is missing
# goes on without; "on" makes that an error, "off" doesn't look.
set(ARCHIPELAGO_CUDA auto CACHE STRING "Build for GPUs: auto, on, off")
set_property(CACHE ARCHIPELAGO_CUDA PROPERTY STRINGS auto on off)
# sm_80 and sm_90 as machine code, and compute_90 as PTX for what comes later.
set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPUs to compile for")

function(find_cuda_parts missing)
  find_package(CUDAToolkit 12.4 QUIET)
  if(NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(${missing} "nvcc of CUDA 12.4 or later" PARENT_SCOPE)
    return()
  endif()
  set(places HINTS ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_INCLUDE_DIRS}/..
    PATH_SUFFIXES include lib lib64)
  find_path(cudnn_include cudnn.h ${places})
  find_library(cudnn_library cudnn ${places})
  find_path(nccl_include nccl.h ${places})
  find_library(nccl_library nccl ${places})
  find_path(cudnn_frontend_include cudnn_frontend.h
    HINTS ${CMAKE_SOURCE_DIR}/.deps/cudnn-frontend/include)
  if(NOT cudnn_include OR NOT cudnn_library)
    set(${missing} "cuDNN 9" PARENT_SCOPE)
  elseif(NOT nccl_include OR NOT nccl_library)
    set(${missing} "NCCL" PARENT_SCOPE)
  elseif(NOT cudnn_frontend_include)
    set(${missing} "cuDNN's frontend headers (scripts/setup fetches them)" PARENT_SCOPE)
  endif()
endfunction()

set(ARCHIPELAGO_HAS_CUDA OFF)
string(TOLOWER "${ARCHIPELAGO_CUDA}" ARCHIPELAGO_CUDA)
if(NOT ARCHIPELAGO_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "ARCHIPELAGO_CUDA is ${ARCHIPELAGO_CUDA}; it must be auto, on or off")
elseif(ARCHIPELAGO_CUDA STREQUAL off)
  message(STATUS "CUDA: off")
else()
  find_cuda_parts(missing_cuda_part)
  if(missing_cuda_part AND ARCHIPELAGO_CUDA STREQUAL on)
    message(FATAL_ERROR "ARCHIPELAGO_CUDA is on, and this is missing: ${missing_cuda_part}")
  elseif(missing_cuda_part)
    message(STATUS "CUDA: not built, missing: ${missing_cuda_part}")
  else()
    set(ARCHIPELAGO_HAS_CUDA ON)
  endif()
endif()

if(ARCHIPELAGO_HAS_CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  enable_language(CUDA)
  if(CCACHE_PROGRAM)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
  message(STATUS "CUDA: ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
  add_library(archipelago_cuda INTERFACE)
  add_library(archipelago::cuda ALIAS archipelago_cuda)
  target_include_directories(archipelago_cuda SYSTEM INTERFACE
    ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_include} ${nccl_include} ${cudnn_frontend_include})
  # Nothing here writes graphs as JSON, which takes a third of the time that the headers compile.
  target_compile_definitions(archipelago_cuda INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
  # CUDA::nvrtc would link the driver's library, which a machine without a GPU lacks.
  target_link_libraries(archipelago_cuda INTERFACE
    CUDA::cudart_static CUDA::cublasLt ${CUDA_nvrtc_LIBRARY} ${cudnn_library} ${nccl_library})
endif()
