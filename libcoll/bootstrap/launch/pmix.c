/*
 * A client of PMIx, the interface of Open MPI's mpirun and of srun --mpi=pmix, through libpmix. A
 * value that rank 0 has put and committed can be read by all ranks after a fence. libpmix counts
 * how often it was initialised, so MPI in the same process may use it too, if MPI_Init comes first.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/deadline.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/launch/pmix_abi.h"

#define LIBRARY "libpmix.so.2"

static struct pmix {
  pid_t pid; /* of the process that is connected; 0: not connected */
#define MEMBER(name, arguments) int(*name) arguments;
  PMIX_ABI_FUNCTIONS(MEMBER)
#undef MEMBER
  const char *(*PMIx_Error_string)(int status);
  pmix_abi_proc_t own;
  int size;
} pmix;

/* ---- the library ----------------------------------------------------------------------------*/

/* Sets a pointer to a function, which C cannot convert from a pointer to data. */
static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* That of the launcher's own installation: another version may not understand its server. */
static void *load_beside_launcher(void) {
  static const char *const variables[] = {"PMIX_PREFIX", "OPAL_PREFIX"};
  static const char *const folders[] = {"lib", "lib/openmpi", "lib64"};
  void *library = NULL;
  for (size_t i = 0; i < 6 && library == NULL; i++) {
    char path[4096];
    const char *prefix = launch_value(variables[i / 3]);
    if (prefix == NULL) continue;
    int length = snprintf(path, sizeof path, "%s/%s/" LIBRARY, prefix, folders[i % 3]);
    if (length < (int)sizeof path) library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  }
  return library;
}

/* Global, because libpmix's plugins look for its symbols there. The one that the program has
 * already loaded is found first, as it has the same name. */
static coll_status_t load(void) {
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  if (library == NULL) library = load_beside_launcher();
  if (library == NULL) library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "the launcher speaks PMIx, but its library cannot be loaded (%s): install it "
                     "(Debian: libpmix2) or add its folder to LD_LIBRARY_PATH",
                     dlerror());
  }
  bool complete = find(library, "PMIx_Error_string", &pmix.PMIx_Error_string);
#define FIND(name, arguments) complete = find(library, #name, &pmix.name) && complete;
  PMIX_ABI_FUNCTIONS(FIND)
#undef FIND
  if (complete) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED, LIBRARY " lacks functions of PMIx 3: use a newer one");
}

/* ---- connecting -----------------------------------------------------------------------------*/

static coll_status_t fail_call(const char *what, int error) {
  return base_fail(COLL_ERROR_SYSTEM, "PMIx (rank %s of %s): %s failed: %s",
                   launch_value("PMIX_RANK"), launch_value("PMIX_NAMESPACE"), what,
                   pmix.PMIx_Error_string(error));
}

static coll_status_t get(uint32_t rank, const char *key, uint16_t type, pmix_abi_value_t **value) {
  pmix_abi_proc_t from = pmix.own;
  from.rank = rank;
  int error = pmix.PMIx_Get(&from, key, NULL, 0, value);
  if (error != PMIX_ABI_SUCCESS) return fail_call(key, error);
  if ((*value)->type == type) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "PMIx: the value of %s has type %d, expected %d", key,
                   (*value)->type, type);
}

/* The launcher takes a process that ends without it for one that has failed. */
static void finalize(void) {
  if (pmix.pid == getpid()) pmix.PMIx_Finalize(NULL, 0);
}

static coll_status_t begin(void) {
  pmix_abi_value_t *size;
  COLL_TRY(load());
  int error = pmix.PMIx_Init(&pmix.own, NULL, 0);
  if (error != PMIX_ABI_SUCCESS) return fail_call("PMIx_Init", error);
  pmix.pid = getpid();
  atexit(finalize);
  COLL_TRY(get(PMIX_ABI_RANK_WILDCARD, PMIX_ABI_JOB_SIZE, PMIX_ABI_UINT32, &size));
  pmix.size = (int)size->data.uint32;
  free(size);
  return COLL_OK;
}

static coll_status_t pmix_open(uint64_t deadline_ns, int *rank, int *size) {
  (void)deadline_ns; /* PMIx_Init has a limit of its own */
  if (pmix.pid == 0 && launch_mpi() == LAUNCH_MPI_NOT_INITIALIZED) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "the program is linked with MPI and has not called MPI_Init, which fails in "
                     "Open MPI 5 if PMIx is in use already: call MPI_Init first");
  }
  if (pmix.pid != 0 && pmix.pid != getpid()) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "the connection to PMIx is that of the process that forked this one");
  }
  if (pmix.pid == 0) COLL_TRY(begin());
  *rank = (int)pmix.own.rank;
  *size = pmix.size;
  return COLL_OK;
}

/* ---- sharing --------------------------------------------------------------------------------*/

/* A fence that libpmix ends in its own thread, perhaps after the wait for it has been given up:
 * whoever is last frees it. */
typedef struct fence {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool is_done, is_given_up;
  int status;
} fence_t;

static void fence_free(fence_t *fence) {
  pthread_mutex_destroy(&fence->lock);
  pthread_cond_destroy(&fence->changed);
  free(fence);
}

static void fence_done(int status, void *context) {
  fence_t *fence = context;
  pthread_mutex_lock(&fence->lock);
  fence->status = status;
  fence->is_done = true;
  bool is_last = fence->is_given_up;
  pthread_cond_signal(&fence->changed);
  pthread_mutex_unlock(&fence->lock);
  if (is_last) fence_free(fence);
}

static fence_t *fence_create(void) {
  fence_t *fence = calloc(1, sizeof *fence);
  if (fence == NULL) return NULL;
  base_deadline_condition(&fence->changed);
  pthread_mutex_init(&fence->lock, NULL);
  return fence;
}

/* Frees the fence, or leaves that to fence_done. */
static coll_status_t fence_wait(fence_t *fence, uint64_t deadline_ns) {
  uint64_t left_ns;
  pthread_mutex_lock(&fence->lock);
  while (!fence->is_done && (left_ns = base_deadline_left_ns(deadline_ns)) > 0) {
    base_deadline_wait(&fence->changed, &fence->lock, left_ns);
  }
  bool is_done = fence->is_done;
  int error = fence->status;
  fence->is_given_up = !is_done;
  pthread_mutex_unlock(&fence->lock);
  if (is_done) fence_free(fence);
  if (is_done && error == PMIX_ABI_SUCCESS) return COLL_OK;
  if (is_done) return fail_call("PMIx_Fence", error);
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %u: not all of the %d ranks have called coll_comm_create_env in time: the "
                   "launcher's fence (PMIx), which does not name those that are missing, has not "
                   "ended",
                   pmix.own.rank, pmix.size);
}

static coll_status_t put(const char *key, char *text) {
  pmix_abi_value_t value = {.type = PMIX_ABI_STRING, .data.string = text};
  int error = pmix.PMIx_Put(PMIX_ABI_GLOBAL, key, &value);
  if (error != PMIX_ABI_SUCCESS) return fail_call("PMIx_Put", error);
  error = pmix.PMIx_Commit();
  return error == PMIX_ABI_SUCCESS ? COLL_OK : fail_call("PMIx_Commit", error);
}

static coll_status_t join_fence(uint64_t deadline_ns) {
  pmix_abi_info_t collect = {.key = PMIX_ABI_COLLECT_DATA,
                             .value = {.type = PMIX_ABI_BOOL, .data.flag = true}};
  pmix_abi_proc_t all = pmix.own;
  all.rank = PMIX_ABI_RANK_WILDCARD;
  fence_t *fence = fence_create();
  if (fence == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for a fence of PMIx");
  int error = pmix.PMIx_Fence_nb(&all, 1, &collect, 1, fence_done, fence);
  if (error == PMIX_ABI_SUCCESS) return fence_wait(fence, deadline_ns);
  fence_free(fence);
  return fail_call("PMIx_Fence", error);
}

static coll_status_t pmix_share(const char *key, uint64_t deadline_ns,
                                char text[LAUNCH_TEXT_BYTES]) {
  pmix_abi_value_t *value;
  if (pmix.own.rank == 0) COLL_TRY(put(key, text));
  COLL_TRY(join_fence(deadline_ns));
  if (pmix.own.rank == 0) return COLL_OK;
  COLL_TRY(get(0, key, PMIX_ABI_STRING, &value));
  snprintf(text, LAUNCH_TEXT_BYTES, "%s", value->data.string);
  explicit_bzero(value->data.string, strlen(value->data.string));
  free(value->data.string);
  free(value);
  return COLL_OK;
}

const launch_store_t launch_store_pmix = {.name = "PMIx", .open = pmix_open, .share = pmix_share};
