/*
 * Types and constants of NVIDIA's driver API, as far as libcoll calls it: its documented binary
 * interface, so that no header of NVIDIA is needed to build. tests/gpu/interface_types.c compares
 * them with cuda.h where that is installed.
 */
#ifndef DEVICE_CUDA_DRIVER_TYPES_H
#define DEVICE_CUDA_DRIVER_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_device_t;                  /* CUdevice: equal to the ordinal */
typedef unsigned long long cuda_ptr_t;      /* CUdeviceptr: an address of the unified space */
typedef unsigned long long cuda_mem_t;      /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *cuda_context_t;    /* CUcontext */
typedef struct CUgreenCtx_st *cuda_green_t; /* CUgreenCtx */
typedef struct CUstream_st *cuda_stream_t;  /* CUstream; NULL is the legacy default stream */
typedef struct CUevent_st *cuda_event_t;    /* CUevent */
typedef struct CUmod_st *cuda_module_t;     /* CUmodule */
typedef struct CUfunc_st *cuda_function_t;  /* CUfunction */
typedef struct CUgraph_st *cuda_graph_t;    /* CUgraph */
typedef struct CUgraphNode_st *cuda_node_t; /* CUgraphNode */
typedef void (*cuda_host_fn_t)(void *context);

typedef enum cuda_result { /* CUresult */
                           CUDA_RESULT_OK = 0,
                           CUDA_RESULT_INVALID_VALUE = 1,
                           CUDA_RESULT_OUT_OF_MEMORY = 2,
                           CUDA_RESULT_NOT_INITIALIZED = 3,
                           CUDA_RESULT_DEINITIALIZED = 4,
                           CUDA_RESULT_STUB_LIBRARY = 34,
                           CUDA_RESULT_DEVICE_UNAVAILABLE = 46,
                           CUDA_RESULT_NO_DEVICE = 100,
                           CUDA_RESULT_INVALID_DEVICE = 101,
                           CUDA_RESULT_INVALID_IMAGE = 200,
                           CUDA_RESULT_INVALID_CONTEXT = 201,
                           CUDA_RESULT_NO_BINARY_FOR_GPU = 209,
                           CUDA_RESULT_ECC_UNCORRECTABLE = 214,
                           CUDA_RESULT_PEER_ACCESS_UNSUPPORTED = 217,
                           CUDA_RESULT_NVLINK_UNCORRECTABLE = 220,
                           CUDA_RESULT_NO_PTX_COMPILER = 221,
                           CUDA_RESULT_UNSUPPORTED_PTX = 222,
                           CUDA_RESULT_OPERATING_SYSTEM = 304,
                           CUDA_RESULT_INVALID_HANDLE = 400,
                           CUDA_RESULT_NOT_FOUND = 500,
                           CUDA_RESULT_NOT_READY = 600,
                           CUDA_RESULT_ILLEGAL_ADDRESS = 700,
                           CUDA_RESULT_PEER_ACCESS_ALREADY_ENABLED = 704,
                           CUDA_RESULT_PEER_ACCESS_NOT_ENABLED = 705,
                           CUDA_RESULT_HOST_MEMORY_ALREADY_REGISTERED = 712,
                           CUDA_RESULT_HOST_MEMORY_NOT_REGISTERED = 713,
                           CUDA_RESULT_MISALIGNED_ADDRESS = 716,
                           CUDA_RESULT_LAUNCH_FAILED = 719,
                           CUDA_RESULT_NOT_PERMITTED = 800,
                           CUDA_RESULT_NOT_SUPPORTED = 801,
                           CUDA_RESULT_SYSTEM_NOT_READY = 802,
                           CUDA_RESULT_SYSTEM_DRIVER_MISMATCH = 803,
                           CUDA_RESULT_UNKNOWN = 999
} cuda_result_t;

typedef enum cuda_attribute { /* CUdevice_attribute */
                              CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
                              CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
                              CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
                              CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
                              CUDA_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
                              CUDA_ATTRIBUTE_COMPUTE_MAJOR = 75,
                              CUDA_ATTRIBUTE_COMPUTE_MINOR = 76,
                              CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
                              CUDA_ATTRIBUTE_MAX_SHARED_PER_BLOCK_OPTIN = 97,
                              CUDA_ATTRIBUTE_VMM = 102,
                              CUDA_ATTRIBUTE_HANDLE_POSIX = 103,
                              CUDA_ATTRIBUTE_RDMA_WITH_VMM = 110,
                              CUDA_ATTRIBUTE_STREAM_64_BIT_OPS = 122,
                              CUDA_ATTRIBUTE_DMA_BUF = 124,
                              CUDA_ATTRIBUTE_SYNC_DOMAINS = 126,
                              CUDA_ATTRIBUTE_HANDLE_FABRIC = 128,
                              CUDA_ATTRIBUTE_MULTICAST = 132,
                              CUDA_ATTRIBUTE_MPS = 133 /* unknown to older drivers */
} cuda_attribute_t;

typedef enum cuda_p2p_attribute { /* CUdevice_P2PAttribute */
                                  CUDA_P2P_NATIVE_ATOMICS = 3
} cuda_p2p_attribute_t;

typedef enum cuda_pointer_attribute { /* CUpointer_attribute, with the type of the value */
                                      CUDA_POINTER_CONTEXT = 1,        /* cuda_context_t */
                                      CUDA_POINTER_MEMORY_TYPE = 2,    /* cuda_memory_type_t */
                                      CUDA_POINTER_DEVICE_POINTER = 3, /* cuda_ptr_t */
                                      CUDA_POINTER_HOST_POINTER = 4,   /* void * */
                                      CUDA_POINTER_BUFFER_ID =
                                          7, /* unsigned long long, unique in the process */
                                      CUDA_POINTER_IS_MANAGED = 8,     /* unsigned */
                                      CUDA_POINTER_DEVICE_ORDINAL = 9, /* int */
                                      CUDA_POINTER_RANGE_START = 11,   /* cuda_ptr_t */
                                      CUDA_POINTER_RANGE_SIZE = 12     /* size_t */
} cuda_pointer_attribute_t;

typedef enum cuda_memory_type { /* CUmemorytype */
                                CUDA_MEMORY_TYPE_NONE =
                                    0, /* the answer of cuPointerGetAttributes about plain memory */
                                CUDA_MEMORY_TYPE_HOST = 1,
                                CUDA_MEMORY_TYPE_DEVICE = 2,
                                CUDA_MEMORY_TYPE_ARRAY = 3,
                                CUDA_MEMORY_TYPE_UNIFIED = 4
} cuda_memory_type_t;

typedef enum cuda_mem_kind { CUDA_MEM_PINNED = 1 } cuda_mem_kind_t;

typedef enum cuda_handle_type { /* CUmemAllocationHandleType, bits */
                                CUDA_HANDLE_NONE = 0,
                                CUDA_HANDLE_POSIX = 1, /* int: a file descriptor */
                                CUDA_HANDLE_FABRIC = 8
} cuda_handle_type_t;

typedef enum cuda_location_type { CUDA_LOCATION_DEVICE = 1 } cuda_location_type_t;

typedef enum cuda_access { /* CUmemAccess_flags */
                           CUDA_ACCESS_NONE = 0,
                           CUDA_ACCESS_READ = 1,
                           CUDA_ACCESS_READ_WRITE = 3
} cuda_access_t;

typedef enum cuda_granularity { /* CUmemAllocationGranularity_flags */
                                CUDA_GRANULARITY_MINIMUM = 0,
                                CUDA_GRANULARITY_RECOMMENDED = 1
} cuda_granularity_t;

typedef enum cuda_multicast_granularity {
  CUDA_MULTICAST_GRANULARITY_MINIMUM = 0,
  CUDA_MULTICAST_GRANULARITY_RECOMMENDED = 1
} cuda_multicast_granularity_t;

typedef enum cuda_range_handle { CUDA_RANGE_HANDLE_DMA_BUF = 1 } cuda_range_handle_t;

typedef enum cuda_capture_status { /* CUstreamCaptureStatus */
                                   CUDA_CAPTURE_NONE = 0,
                                   CUDA_CAPTURE_ACTIVE = 1,
                                   CUDA_CAPTURE_INVALIDATED = 2
} cuda_capture_status_t;

typedef enum cuda_capture_mode { /* CUstreamCaptureMode */
                                 CUDA_CAPTURE_GLOBAL = 0,
                                 CUDA_CAPTURE_THREAD_LOCAL = 1,
                                 CUDA_CAPTURE_RELAXED = 2
} cuda_capture_mode_t;

typedef enum cuda_function_attribute { /* CUfunction_attribute */
                                       CUDA_FUNCTION_MAX_THREADS = 0,
                                       CUDA_FUNCTION_REGISTERS = 4,
                                       CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8
} cuda_function_attribute_t;

typedef enum cuda_launch_attribute_id { /* CUlaunchAttributeID */
                                        CUDA_LAUNCH_IGNORE = 0,
                                        CUDA_LAUNCH_SYNC_DOMAIN = 10
} cuda_launch_attribute_id_t;

typedef enum cuda_domain { /* CUlaunchMemSyncDomain */
                           CUDA_DOMAIN_DEFAULT = 0,
                           CUDA_DOMAIN_REMOTE = 1
} cuda_domain_t;

typedef enum cuda_value_kind { /* CUstreamBatchMemOpType */
                               CUDA_VALUE_WAIT32 = 1,
                               CUDA_VALUE_WRITE32 = 2,
                               CUDA_VALUE_WAIT64 = 4,
                               CUDA_VALUE_WRITE64 = 5
} cuda_value_kind_t;

typedef enum cuda_source_order { /* CUmemcpySrcAccessOrder */
                                 CUDA_SOURCE_IN_STREAM = 1,
                                 CUDA_SOURCE_DURING_CALL = 2,
                                 CUDA_SOURCE_ANY_TIME = 3
} cuda_source_order_t;

typedef enum cuda_symbol_status { /* CUdriverProcAddressQueryResult */
                                  CUDA_SYMBOL_FOUND = 0,
                                  CUDA_SYMBOL_MISSING = 1,
                                  CUDA_SYMBOL_NEEDS_VERSION = 2
} cuda_symbol_status_t;

/* Flags, which the interface passes as unsigned integers. */
enum {
  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_EVENT_BLOCKING_SYNC = 1,
  CUDA_EVENT_NO_TIMING = 2,
  CUDA_EVENT_RECORD_EXTERNAL = 1, /* of a captured stream: a node of the graph records the event */
  CUDA_EVENT_WAIT_EXTERNAL = 1,   /* a node waits for what the event stands for at the launch */
  CUDA_WAIT_GEQ = 0,              /* (int)(*address - value) >= 0 */
  CUDA_WAIT_EQ = 1,
  CUDA_WAIT_AND = 2, /* (*address & value) != 0 */
  CUDA_WAIT_NOR = 3, /* ~(*address | value) != 0 */
  CUDA_HOST_PORTABLE = 1,
  CUDA_HOST_MAPPED = 2,
  CUDA_REGISTER_PORTABLE = 1,
  CUDA_REGISTER_MAPPED = 2,
  CUDA_IPC_LAZY_PEER_ACCESS = 1,
  CUDA_MANAGED_GLOBAL = 1,
  CUDA_SYMBOL_LEGACY_STREAM = 1
};

#define CUDA_IPC_BYTES 64
#define CUDA_DEVICE_NONE (-2) /* an ordinal that cuPointerGetAttributes answers */

typedef struct cuda_uuid {
  char bytes[16];
} cuda_uuid_t;

typedef struct cuda_location {
  cuda_location_type_t type;
  int id; /* the ordinal of the device */
} cuda_location_t;

typedef struct cuda_mem_prop { /* CUmemAllocationProp */
  cuda_mem_kind_t kind;
  cuda_handle_type_t handle_types;
  cuda_location_t location;
  void *win32;
  unsigned char compression, rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
} cuda_mem_prop_t;

typedef struct cuda_access_desc {
  cuda_location_t location;
  cuda_access_t flags;
} cuda_access_desc_t;

typedef struct cuda_multicast_prop { /* CUmulticastObjectProp */
  unsigned device_count;
  size_t bytes;
  unsigned long long handle_types, flags;
} cuda_multicast_prop_t;

typedef struct cuda_launch_attribute { /* CUlaunchAttribute */
  cuda_launch_attribute_id_t id;
  char pad[8 - sizeof(cuda_launch_attribute_id_t)];
  union {
    uint64_t words[8];
    cuda_domain_t domain; /* of CUDA_LAUNCH_SYNC_DOMAIN */
  } value;
} cuda_launch_attribute_t;

typedef struct cuda_launch_config { /* CUlaunchConfig */
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  cuda_stream_t stream;
  cuda_launch_attribute_t *attributes;
  unsigned attribute_count;
} cuda_launch_config_t;

typedef union cuda_value_operation { /* CUstreamBatchMemOpParams */
  struct {
    cuda_value_kind_t kind;
    cuda_ptr_t address;
    uint64_t value;
    unsigned flags;
    cuda_ptr_t alias; /* of the driver */
  } of_memory;
  uint64_t words[6];
} cuda_value_operation_t;

typedef struct cuda_copy_attributes { /* CUmemcpyAttributes */
  cuda_source_order_t order;
  cuda_location_t src_hint, dst_hint; /* of managed memory */
  unsigned flags;
} cuda_copy_attributes_t;

typedef struct cuda_ipc_handle {
  char bytes[CUDA_IPC_BYTES];
} cuda_ipc_handle_t;

#endif
