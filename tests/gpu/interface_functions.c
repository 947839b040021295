/*
 * Compares our prototypes of the driver's functions with NVIDIA's, at compile time: the list is
 * read here with NVIDIA's types in place of ours.
 */
#include <cuda.h>
#include <cudaTypedefs.h>

typedef CUdevice cuda_device_t;
typedef CUdeviceptr cuda_ptr_t;
typedef CUmemGenericAllocationHandle cuda_mem_t;
typedef CUcontext cuda_context_t;
typedef CUgreenCtx cuda_green_t;
typedef CUstream cuda_stream_t;
typedef CUevent cuda_event_t;
typedef CUmodule cuda_module_t;
typedef CUfunction cuda_function_t;
typedef CUgraph cuda_graph_t;
typedef CUgraphNode cuda_node_t;
typedef CUhostFn cuda_host_fn_t;
typedef CUresult cuda_result_t;
typedef CUdevice_attribute cuda_attribute_t;
typedef CUdevice_P2PAttribute cuda_p2p_attribute_t;
typedef CUpointer_attribute cuda_pointer_attribute_t;
typedef CUmemAllocationHandleType cuda_handle_type_t;
typedef CUmemAllocationGranularity_flags cuda_granularity_t;
typedef CUmulticastGranularity_flags cuda_multicast_granularity_t;
typedef CUmemRangeHandleType cuda_range_handle_t;
typedef CUstreamCaptureStatus cuda_capture_status_t;
typedef CUstreamCaptureMode cuda_capture_mode_t;
typedef CUfunction_attribute cuda_function_attribute_t;
typedef CUuuid cuda_uuid_t;
typedef CUmemLocation cuda_location_t;
typedef CUmemAllocationProp cuda_mem_prop_t;
typedef CUmemAccessDesc cuda_access_desc_t;
typedef CUmulticastObjectProp cuda_multicast_prop_t;
typedef CUipcMemHandle cuda_ipc_handle_t;
typedef CUlaunchConfig cuda_launch_config_t;
typedef CUmemcpyAttributes cuda_copy_attributes_t;
typedef CUstreamBatchMemOpParams cuda_value_operation_t;

/* The header declares newer versions of these, under the old names. */
extern __typeof__(*(PFN_cuStreamGetCaptureInfo_v11030)0) cuStreamGetCaptureInfo_v2;
#undef cuMemcpyBatchAsync
extern __typeof__(*(PFN_cuMemcpyBatchAsync_v12080)0) cuMemcpyBatchAsync;

typedef CUgraphExec cuda_graph_exec_t;

#include "device/cuda/driver_functions.h"
#include "gpu/standin/program_functions.h"

/* The header renames some functions to a later version, which has the same prototype. */
#define CHECK(since, name, suffix, parameters)                                              \
  _Static_assert(                                                                           \
      __builtin_types_compatible_p(__typeof__(&name##suffix), cuda_result_t(*) parameters), \
      #name #suffix);
CUDA_FUNCTIONS(CHECK)

/* The stand-in's further functions. */
#define CHECK_MORE(name, parameters)                                                           \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&name), cuda_result_t(*) parameters), \
                 #name);
STANDIN_PROGRAM_FUNCTIONS(CHECK_MORE)
