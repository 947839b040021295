/*
 * Functions that programs look up when they are loaded, PyTorch among them, and that are refused
 * when they are called. This file includes no header of NVIDIA, as the functions are alike whatever
 * their parameters are.
 */
#include "gpu/runtime/refused.h"

#define PUBLIC __attribute__((visibility("default")))

#define REFUSE(name)              \
  PUBLIC int name(void);          \
  PUBLIC int name(void) {         \
    return runtime_refuse(#name); \
  }

#define REFUSED(X)                                          \
  X(cudaDeviceGetDefaultMemPool)                            \
  X(cudaDeviceGetGraphMemAttribute)                         \
  X(cudaDeviceSetGraphMemAttribute)                         \
  X(cudaFuncGetAttributes)                                  \
  X(cudaFuncSetAttribute)                                   \
  X(cudaGetSymbolAddress)                                   \
  X(cudaGraphAddNode)                                       \
  X(cudaGraphConditionalHandleCreate)                       \
  X(cudaGraphNodeGetDependencies)                           \
  X(cudaIpcGetEventHandle)                                  \
  X(cudaIpcOpenEventHandle)                                 \
  X(cudaKernelSetAttributeForDevice)                        \
  X(cudaLaunchCooperativeKernel)                            \
  X(cudaLaunchKernelExC)                                    \
  X(cudaLibraryGetGlobal)                                   \
  X(cudaLibraryGetKernel)                                   \
  X(cudaLibraryGetKernelCount)                              \
  X(cudaLibraryGetManaged)                                  \
  X(cudaLibraryGetUnifiedFunction)                          \
  X(cudaLibraryLoadData)                                    \
  X(cudaLibraryLoadFromFile)                                \
  X(cudaLibraryUnload)                                      \
  X(cudaMemPoolGetAttribute)                                \
  X(cudaMemPoolSetAccess)                                   \
  X(cudaMemPoolSetAttribute)                                \
  X(cudaMemPoolTrimTo)                                      \
  X(cudaMemcpy2DAsync)                                      \
  X(cudaMemcpyToSymbol)                                     \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessor)          \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  X(cudaStreamAddCallback)                                  \
  X(cudaStreamBeginCaptureToGraph)                          \
  X(cudaStreamUpdateCaptureDependencies)

REFUSED(REFUSE)
