/*
 * The functions of NVIDIA's driver API that libcoll calls. Each entry has the CUDA version in which
 * the function got this prototype (12000 for all that the oldest driver we take has), its name, the
 * version suffix of its symbol, and its parameters. Later drivers have earlier prototypes, too.
 */
#ifndef DEVICE_CUDA_DRIVER_FUNCTIONS_H
#define DEVICE_CUDA_DRIVER_FUNCTIONS_H

#define CUDA_DEVICE_FUNCTIONS(X)                                                                   \
  X(12000, cuInit, , (unsigned flags))                                                             \
  X(12000, cuGetErrorName, , (cuda_result_t result, const char **name))                            \
  X(12000, cuGetErrorString, , (cuda_result_t result, const char **text))                          \
  X(12000, cuDeviceGetCount, , (int *count))                                                       \
  X(12000, cuDeviceGet, , (cuda_device_t * device, int ordinal))                                   \
  X(12000, cuDeviceGetName, , (char *name, int bytes, cuda_device_t device))                       \
  X(12000, cuDeviceGetAttribute, , (int *value, cuda_attribute_t attribute, cuda_device_t device)) \
  X(12000, cuDeviceGetUuid, _v2, (cuda_uuid_t * uuid, cuda_device_t device))                       \
  X(12000, cuDeviceTotalMem, _v2, (size_t * bytes, cuda_device_t device))                          \
  X(12000, cuDeviceGetPCIBusId, , (char *id, int bytes, cuda_device_t device))                     \
  X(12000, cuDeviceCanAccessPeer, , (int *can, cuda_device_t device, cuda_device_t peer))          \
  X(12000, cuDeviceGetP2PAttribute, ,                                                              \
    (int *value, cuda_p2p_attribute_t attribute, cuda_device_t device, cuda_device_t peer))        \
  X(12000, cuDevicePrimaryCtxRetain, , (cuda_context_t * context, cuda_device_t device))           \
  X(12000, cuDevicePrimaryCtxRelease, _v2, (cuda_device_t device))                                 \
  X(12000, cuDevicePrimaryCtxGetState, , (cuda_device_t device, unsigned *flags, int *active))     \
  X(12000, cuCtxPushCurrent, _v2, (cuda_context_t context))                                        \
  X(12000, cuCtxPopCurrent, _v2, (cuda_context_t * context))                                       \
  X(12000, cuCtxGetCurrent, , (cuda_context_t * context))                                          \
  X(12000, cuCtxSetCurrent, , (cuda_context_t context))                                            \
  X(12000, cuCtxGetDevice, , (cuda_device_t * device))                                             \
  X(12000, cuCtxSynchronize, , (void))                                                             \
  X(12000, cuCtxEnablePeerAccess, , (cuda_context_t peer, unsigned flags))                         \
  X(12000, cuCtxDisablePeerAccess, , (cuda_context_t peer))

#define CUDA_MEMORY_FUNCTIONS(X)                                                                  \
  X(12000, cuMemGetAllocationGranularity, ,                                                       \
    (size_t * bytes, const cuda_mem_prop_t *prop, cuda_granularity_t option))                     \
  X(12000, cuMemAddressReserve, ,                                                                 \
    (cuda_ptr_t * address, size_t bytes, size_t alignment, cuda_ptr_t hint,                       \
     unsigned long long flags))                                                                   \
  X(12000, cuMemAddressFree, , (cuda_ptr_t address, size_t bytes))                                \
  X(12000, cuMemCreate, ,                                                                         \
    (cuda_mem_t * handle, size_t bytes, const cuda_mem_prop_t *prop, unsigned long long flags))   \
  X(12000, cuMemRelease, , (cuda_mem_t handle))                                                   \
  X(12000, cuMemMap, ,                                                                            \
    (cuda_ptr_t address, size_t bytes, size_t offset, cuda_mem_t handle,                          \
     unsigned long long flags))                                                                   \
  X(12000, cuMemUnmap, , (cuda_ptr_t address, size_t bytes))                                      \
  X(12000, cuMemSetAccess, ,                                                                      \
    (cuda_ptr_t address, size_t bytes, const cuda_access_desc_t *descs, size_t count))            \
  X(12000, cuMemGetAccess, ,                                                                      \
    (unsigned long long *flags, const cuda_location_t *location, cuda_ptr_t address))             \
  X(12000, cuMemExportToShareableHandle, ,                                                        \
    (void *shareable, cuda_mem_t handle, cuda_handle_type_t type, unsigned long long flags))      \
  X(12000, cuMemImportFromShareableHandle, ,                                                      \
    (cuda_mem_t * handle, void *shareable, cuda_handle_type_t type))                              \
  X(12000, cuMemRetainAllocationHandle, , (cuda_mem_t * handle, void *address))                   \
  X(12000, cuMemGetAllocationPropertiesFromHandle, , (cuda_mem_prop_t * prop, cuda_mem_t handle)) \
  X(12000, cuMemGetHandleForAddressRange, ,                                                       \
    (void *handle, cuda_ptr_t address, size_t bytes, cuda_range_handle_t type,                    \
     unsigned long long flags))                                                                   \
  X(12000, cuMemGetAddressRange, _v2, (cuda_ptr_t * base, size_t * bytes, cuda_ptr_t address))    \
  X(12000, cuMemGetInfo, _v2, (size_t * free_bytes, size_t * total_bytes))                        \
  X(12000, cuMemAlloc, _v2, (cuda_ptr_t * address, size_t bytes))                                 \
  X(12000, cuMemFree, _v2, (cuda_ptr_t address))                                                  \
  X(12000, cuMemAllocManaged, , (cuda_ptr_t * address, size_t bytes, unsigned flags))             \
  X(12000, cuMemHostAlloc, , (void **address, size_t bytes, unsigned flags))                      \
  X(12000, cuMemFreeHost, , (void *address))                                                      \
  X(12000, cuMemHostRegister, _v2, (void *address, size_t bytes, unsigned flags))                 \
  X(12000, cuMemHostUnregister, , (void *address))                                                \
  X(12000, cuMemHostGetDevicePointer, _v2,                                                        \
    (cuda_ptr_t * device_address, void *address, unsigned flags))                                 \
  X(12000, cuPointerGetAttribute, ,                                                               \
    (void *value, cuda_pointer_attribute_t attribute, cuda_ptr_t address))                        \
  X(12000, cuPointerGetAttributes, ,                                                              \
    (unsigned count, cuda_pointer_attribute_t *attributes, void **values, cuda_ptr_t address))    \
  X(12000, cuIpcGetMemHandle, , (cuda_ipc_handle_t * handle, cuda_ptr_t address))                 \
  X(12000, cuIpcOpenMemHandle, _v2,                                                               \
    (cuda_ptr_t * address, cuda_ipc_handle_t handle, unsigned flags))                             \
  X(12000, cuIpcCloseMemHandle, , (cuda_ptr_t address))                                           \
  X(12010, cuMulticastCreate, , (cuda_mem_t * handle, const cuda_multicast_prop_t *prop))         \
  X(12010, cuMulticastAddDevice, , (cuda_mem_t handle, cuda_device_t device))                     \
  X(12010, cuMulticastBindMem, ,                                                                  \
    (cuda_mem_t handle, size_t offset, cuda_mem_t memory, size_t memory_offset, size_t bytes,     \
     unsigned long long flags))                                                                   \
  X(12010, cuMulticastUnbind, ,                                                                   \
    (cuda_mem_t handle, cuda_device_t device, size_t offset, size_t bytes))                       \
  X(12010, cuMulticastGetGranularity, ,                                                           \
    (size_t * bytes, const cuda_multicast_prop_t *prop, cuda_multicast_granularity_t option))

#define CUDA_STREAM_FUNCTIONS(X)                                                                  \
  X(12000, cuMemcpyAsync, , (cuda_ptr_t dst, cuda_ptr_t src, size_t bytes, cuda_stream_t stream)) \
  X(12080, cuMemcpyBatchAsync, ,                                                                  \
    (cuda_ptr_t * dsts, cuda_ptr_t * srcs, size_t * bytes, size_t count,                          \
     cuda_copy_attributes_t * attributes, size_t * begins, size_t attribute_count,                \
     size_t * failed, cuda_stream_t stream))                                                      \
  X(12000, cuMemsetD8Async, ,                                                                     \
    (cuda_ptr_t dst, unsigned char value, size_t count, cuda_stream_t stream))                    \
  X(12000, cuMemsetD32Async, ,                                                                    \
    (cuda_ptr_t dst, unsigned value, size_t count, cuda_stream_t stream))                         \
  X(12000, cuStreamCreateWithPriority, , (cuda_stream_t * stream, unsigned flags, int priority))  \
  X(12000, cuStreamDestroy, _v2, (cuda_stream_t stream))                                          \
  X(12000, cuStreamQuery, , (cuda_stream_t stream))                                               \
  X(12000, cuStreamSynchronize, , (cuda_stream_t stream))                                         \
  X(12000, cuStreamGetCtx, , (cuda_stream_t stream, cuda_context_t * context))                    \
  X(12040, cuStreamGetGreenCtx, , (cuda_stream_t stream, cuda_green_t * context))                 \
  X(12000, cuStreamWaitEvent, , (cuda_stream_t stream, cuda_event_t event, unsigned flags))       \
  X(12000, cuStreamWaitValue32, _v2,                                                              \
    (cuda_stream_t stream, cuda_ptr_t address, uint32_t value, unsigned flags))                   \
  X(12000, cuStreamWaitValue64, _v2,                                                              \
    (cuda_stream_t stream, cuda_ptr_t address, uint64_t value, unsigned flags))                   \
  X(12000, cuStreamWriteValue32, _v2,                                                             \
    (cuda_stream_t stream, cuda_ptr_t address, uint32_t value, unsigned flags))                   \
  X(12000, cuStreamWriteValue64, _v2,                                                             \
    (cuda_stream_t stream, cuda_ptr_t address, uint64_t value, unsigned flags))                   \
  X(12000, cuStreamBatchMemOp, _v2,                                                               \
    (cuda_stream_t stream, unsigned count, cuda_value_operation_t *operations, unsigned flags))   \
  X(12000, cuStreamIsCapturing, , (cuda_stream_t stream, cuda_capture_status_t * status))         \
  X(12000, cuStreamGetCaptureInfo, _v2,                                                           \
    (cuda_stream_t stream, cuda_capture_status_t * status, uint64_t * id, cuda_graph_t * graph,   \
     const cuda_node_t **dependencies, size_t *dependency_count))                                 \
  X(12000, cuThreadExchangeStreamCaptureMode, , (cuda_capture_mode_t * mode))                     \
  X(12000, cuEventCreate, , (cuda_event_t * event, unsigned flags))                               \
  X(12000, cuEventDestroy, _v2, (cuda_event_t event))                                             \
  X(12000, cuEventRecord, , (cuda_event_t event, cuda_stream_t stream))                           \
  X(12000, cuEventRecordWithFlags, , (cuda_event_t event, cuda_stream_t stream, unsigned flags))  \
  X(12000, cuEventQuery, , (cuda_event_t event))                                                  \
  X(12000, cuEventSynchronize, , (cuda_event_t event))                                            \
  X(12000, cuEventElapsedTime, , (float *ms, cuda_event_t start, cuda_event_t end))               \
  X(12000, cuModuleLoadData, , (cuda_module_t * module, const void *image))                       \
  X(12000, cuModuleUnload, , (cuda_module_t module))                                              \
  X(12000, cuModuleGetFunction, ,                                                                 \
    (cuda_function_t * function, cuda_module_t module, const char *name))                         \
  X(12000, cuFuncGetAttribute, ,                                                                  \
    (int *value, cuda_function_attribute_t attribute, cuda_function_t function))                  \
  X(12000, cuFuncSetAttribute, ,                                                                  \
    (cuda_function_t function, cuda_function_attribute_t attribute, int value))                   \
  X(12000, cuLaunchKernelEx, ,                                                                    \
    (const cuda_launch_config_t *config, cuda_function_t function, void **arguments,              \
     void **extra))                                                                               \
  X(12000, cuLaunchHostFunc, , (cuda_stream_t stream, cuda_host_fn_t function, void *context))    \
  X(12000, cuOccupancyMaxActiveBlocksPerMultiprocessor, ,                                         \
    (int *blocks, cuda_function_t function, int block_threads, size_t shared_bytes))

#define CUDA_FUNCTIONS(X)  \
  CUDA_DEVICE_FUNCTIONS(X) \
  CUDA_MEMORY_FUNCTIONS(X) \
  CUDA_STREAM_FUNCTIONS(X)

#endif
