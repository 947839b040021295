/*
 * Functions of the driver that libcoll does not call, and programs do, through the CUDA runtime
 * (gpu/runtime). Each entry has the symbol and its parameters.
 */
#ifndef TESTS_GPU_STANDIN_PROGRAM_FUNCTIONS_H
#define TESTS_GPU_STANDIN_PROGRAM_FUNCTIONS_H

#define STANDIN_PROGRAM_FUNCTIONS(X)                                                              \
  X(cuDevicePrimaryCtxReset_v2, (cuda_device_t device))                                           \
  X(cuMemcpyPeerAsync, (cuda_ptr_t dst, cuda_context_t dst_context, cuda_ptr_t src,               \
                        cuda_context_t src_context, size_t bytes, cuda_stream_t stream))          \
  X(cuLaunchKernel, (cuda_function_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     cuda_stream_t stream, void **arguments, void **extra))                       \
  X(cuMemAllocAsync, (cuda_ptr_t * address, size_t bytes, cuda_stream_t stream))                  \
  X(cuMemFreeAsync, (cuda_ptr_t address, cuda_stream_t stream))                                   \
  X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                     \
  X(cuStreamBeginCapture_v2, (cuda_stream_t stream, cuda_capture_mode_t mode))                    \
  X(cuStreamEndCapture, (cuda_stream_t stream, cuda_graph_t * graph))                             \
  X(cuGreenCtxStreamCreate,                                                                       \
    (cuda_stream_t * stream, cuda_green_t context, unsigned flags, int priority))                 \
  X(cuGraphInstantiateWithFlags,                                                                  \
    (cuda_graph_exec_t * exec, cuda_graph_t graph, unsigned long long flags))                     \
  X(cuGraphLaunch, (cuda_graph_exec_t exec, cuda_stream_t stream))                                \
  X(cuGraphExecDestroy, (cuda_graph_exec_t exec))                                                 \
  X(cuGraphDestroy, (cuda_graph_t graph))                                                         \
  X(cuGraphGetNodes, (cuda_graph_t graph, cuda_node_t * nodes, size_t * count))

#endif
