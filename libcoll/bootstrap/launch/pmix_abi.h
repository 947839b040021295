/*
 * The part of PMIx's binary interface that the library uses. libpmix.so.2 is loaded at run time, so
 * that a machine without it still runs the library, and its header is not needed to build. Types
 * and values are the same in PMIx 3 to 6 (Source: "PMIx Standard", versions 3.1 to 5.0);
 * tests/launch/pmix_abi.c compares them with the header, where it is installed.
 */
#ifndef BOOTSTRAP_LAUNCH_PMIX_ABI_H
#define BOOTSTRAP_LAUNCH_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  PMIX_ABI_SUCCESS = 0,
  PMIX_ABI_BOOL = 1, /* types of values */
  PMIX_ABI_STRING = 3,
  PMIX_ABI_UINT32 = 14,
  PMIX_ABI_GLOBAL = 3 /* scope: processes on all hosts */
};

#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)
#define PMIX_ABI_JOB_SIZE "pmix.job.size"
#define PMIX_ABI_COLLECT_DATA "pmix.collect"

typedef struct pmix_abi_proc {
  char nspace[256];
  uint32_t rank;
} pmix_abi_proc_t;

typedef struct pmix_abi_value {
  uint16_t type;
  union {
    bool flag;
    char *string;
    uint32_t uint32;
    struct {
      char *name, *value;
      char separator;
    } largest; /* as large as the largest member of the header's union */
  } data;
} pmix_abi_value_t;

typedef struct pmix_abi_info {
  char key[512];
  uint32_t flags;
  pmix_abi_value_t value;
} pmix_abi_info_t;

typedef void (*pmix_abi_done_t)(int status, void *context);

/* X(name, arguments): functions that return a status. */
#define PMIX_ABI_FUNCTIONS(X)                                                                     \
  X(PMIx_Init, (pmix_abi_proc_t * proc, pmix_abi_info_t * info, size_t info_count))               \
  X(PMIx_Put, (uint8_t scope, const char *key, pmix_abi_value_t *value))                          \
  X(PMIx_Commit, (void))                                                                          \
  X(PMIx_Fence_nb, (const pmix_abi_proc_t *procs, size_t proc_count, const pmix_abi_info_t *info, \
                    size_t info_count, pmix_abi_done_t done, void *context))                      \
  X(PMIx_Get, (const pmix_abi_proc_t *proc, const char *key, const pmix_abi_info_t *info,         \
               size_t info_count, pmix_abi_value_t **value))                                      \
  X(PMIx_Finalize, (const pmix_abi_info_t *info, size_t info_count))

#endif
