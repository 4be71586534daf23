#pragma once

#include "cuda_runtime.h"

// The part of cuDNN that kernels/cuda uses beside its frontend.

// NOLINTBEGIN: cuDNN's names
enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_INITIALIZED = 1001 };
struct FakeDnnHandle;
using cudnnHandle_t = FakeDnnHandle*;
const char* cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
// NOLINTEND
