/*
 * An allgather tells every rank what memory all others have. File descriptors follow, then each
 * rank maps what it can, and a second allgather tells whether all have. Where GPUs cannot map each
 * other's memory, none stays mapped: calls use windows that all have mapped (places.c).
 */
#include "offload/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bootstrap/process.h"
#include "device/cuda/pointer.h"
#include "offload/descriptors.h"
#include "offload/state.h"
#include "run/allgather.h"

#define TAG_OF_WINDOWS (UINT64_C(1) << 56) /* plus the window's number on the communicator */
#define OUTCOME_APART (-1)                 /* this GPU cannot map the memory of another rank's */

static base_handles_t windows = BASE_HANDLES(struct coll_window, "windows");

/* What a rank tells the others. */
typedef struct part {
  uint64_t process; /* of its host */
  uint64_t address, bytes;
  uint64_t failed;
  uint64_t is_staged; /* calls access no memory of other ranks */
  cuda_share_t share;
} part_t;

/* The creation of a window on this rank. */
typedef struct making {
  struct coll_comm *comm;
  struct coll_window *window;
  const cuda_driver_t *driver;        /* NULL: memory of the host */
  bool is_staged;                     /* the communicator, on a rank at least */
  int descriptor;                     /* of this rank's part; -1: none */
  char why_private[COMM_ERROR_BYTES]; /* why others cannot map it */
  bool is_apart;                      /* this rank's GPU cannot map the memory of another's */
  part_t *parts;                      /* [size] */
  bool *to, *from;                    /* [size]: whom descriptors are passed to, and by whom */
  int *descriptors;                   /* [size] */
  int32_t *outcomes;                  /* [size]: the status of each rank's mapping, or APART */
} making_t;

/* Whether calls of this communicator access no memory of other ranks' GPUs, so that none is mapped.
 */
static bool is_staged(struct coll_comm *comm) {
  if (offload_proxy_serves(comm)) return true;
  return offload_is_connected(comm) && offload_of(comm)->proxy != NULL;
}

/* ---- this rank's part ------------------------------------------------------------------------*/

/* Finds the driver if it is memory of a GPU. */
static coll_status_t find_driver(const void *ptr, const cuda_driver_t **driver, int *device) {
  cuda_pointer_t pointer;
  const cuda_driver_t *found;
  *driver = NULL;
  *device = CUDA_NO_DEVICE;
  if (ptr == NULL || !cuda_driver_is_present() || cuda_driver_load(&found) != COLL_OK) {
    return COLL_OK;
  }
  COLL_TRY(cuda_pointer_query(found, ptr, &pointer));
  if (pointer.kind != CUDA_KIND_DEVICE) return COLL_OK;
  *driver = found;
  *device = pointer.device;
  return COLL_OK;
}

/* Makes the descriptor before any peer waits for it. */
static coll_status_t describe(making_t *m, part_t *own) {
  const struct coll_window *window = m->window;
  *own = (part_t){.process = bootstrap_process_id(),
                  .address = (uint64_t)(uintptr_t)window->ptr,
                  .bytes = window->bytes,
                  .is_staged = is_staged(m->comm)};
  if (window->bytes == 0) return COLL_OK;
  COLL_TRY(find_driver(window->ptr, &m->driver, &m->window->device));
  if (m->driver == NULL) return COLL_OK;
  COLL_TRY(cuda_share_describe(m->driver, window->device, window->ptr, window->bytes, &own->share));
  if (own->share.way == CUDA_SHARE_DESCRIPTOR &&
      cuda_share_export(m->driver, &own->share, &m->descriptor) != COLL_OK) {
    own->share.way = CUDA_SHARE_PRIVATE;
    m->descriptor = -1;
  }
  if (own->share.way == CUDA_SHARE_PRIVATE) {
    snprintf(m->why_private, sizeof m->why_private, "%s", base_last_error());
  }
  return COLL_OK;
}

/* ---- agreeing --------------------------------------------------------------------------------*/

static bool is_of_gpu(const making_t *m, int rank) {
  return m->parts[rank].share.way != CUDA_SHARE_NONE;
}

/* Also if it has connected its GPU only on some ranks yet. */
static bool any_is_staged(const making_t *m) {
  int rank = 0;
  while (rank < m->comm->size && !m->parts[rank].is_staged) rank++;
  return rank < m->comm->size;
}

/* All ranks compare the same parts, so all find the same. */
static coll_status_t check_parts(const making_t *m) {
  int gpu = -1, host = -1;
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (m->parts[rank].failed) {
      return base_fail(COLL_ERROR_UNSUPPORTED,
                       "rank %d: the memory of rank %d cannot be a window (its own error says why)",
                       m->comm->rank, rank);
    }
    if (m->parts[rank].bytes > 0) *(is_of_gpu(m, rank) ? &gpu : &host) = rank;
  }
  if (gpu < 0 || host < 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "rank %d: the window is memory of a GPU on rank %d, but of the host on rank %d: "
                   "all ranks must give the same kind",
                   m->comm->rank, gpu, host);
}

static coll_status_t check_outcomes(const making_t *m) {
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (m->outcomes[rank] == COLL_OK || m->outcomes[rank] == OUTCOME_APART) continue;
    if (m->why_private[0] != '\0') {
      return base_fail(COLL_ERROR_UNSUPPORTED, "rank %d: %s", m->comm->rank, m->why_private);
    }
    return base_fail((coll_status_t)m->outcomes[rank],
                     "rank %d: rank %d could not map the window (its own error says why)",
                     m->comm->rank, rank);
  }
  return COLL_OK;
}

/* ---- mapping ---------------------------------------------------------------------------------*/

static bool is_of_this_process(const making_t *m, int rank) {
  if (rank == m->comm->rank) return true;
  return offload_descriptors_reach(m->comm, rank) &&
         m->parts[rank].process == m->parts[m->comm->rank].process;
}

/* Whether the rank is in another process of this host, and both have memory of GPUs. */
static bool must_import(const making_t *m, int rank) {
  return offload_descriptors_reach(m->comm, rank) && !is_of_this_process(m, rank) &&
         is_of_gpu(m, rank) && m->driver != NULL && !m->is_staged;
}

/* Whether the rank's memory of its GPU is mapped for this rank's. */
static bool must_map(const making_t *m, int rank) {
  if (m->driver == NULL || rank == m->comm->rank) return m->driver != NULL;
  return (is_of_this_process(m, rank) && !m->is_staged) || must_import(m, rank);
}

static coll_status_t exchange_descriptors(making_t *m) {
  struct coll_comm *comm = m->comm;
  for (int rank = 0; rank < comm->size; rank++) {
    bool imports = must_import(m, rank);
    m->to[rank] = imports && m->descriptor >= 0;
    m->from[rank] = imports && m->parts[rank].share.way == CUDA_SHARE_DESCRIPTOR;
  }
  pthread_mutex_lock(&comm->lock);
  m->window->number = comm->windows.made++;
  pthread_mutex_unlock(&comm->lock);
  return offload_descriptors_exchange(comm, m->to, m->from, TAG_OF_WINDOWS + m->window->number,
                                      m->descriptor, m->descriptors);
}

/* Of a share of this process or another. The driver calls it an invalid device if it cannot access
 * one that this process does not see. */
static coll_status_t map_share(making_t *m, int rank) {
  const cuda_share_t *share = &m->parts[rank].share;
  cuda_mapping_t *mapping = &m->window->mappings[rank];
  int device = m->window->device;
  coll_status_t status =
      is_of_this_process(m, rank)
          ? cuda_share_open(m->driver, device, share, mapping)
          : cuda_share_map(m->driver, device, share, m->descriptors[rank], mapping);
  m->is_apart = status == COLL_ERROR_UNSUPPORTED || status == COLL_ERROR_INVALID;
  return status;
}

static coll_status_t map_of_gpu(making_t *m, int rank) {
  struct coll_window *window = m->window;
  const cuda_share_t *share = &m->parts[rank].share;
  if (!is_of_this_process(m, rank) && share->way == CUDA_SHARE_PRIVATE) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "rank %d: the memory of rank %d cannot be mapped by other processes (its own "
                     "error says why)",
                     m->comm->rank, rank);
  }
  COLL_TRY(map_share(m, rank));
  window->parts[rank] = (char *)(uintptr_t)window->mappings[rank].address;
  return COLL_OK;
}

static coll_status_t map_part(making_t *m, int rank) {
  const part_t *part = &m->parts[rank];
  m->window->part_bytes[rank] = part->bytes;
  if (part->bytes == 0) return COLL_OK;
  if (is_of_gpu(m, rank)) return must_map(m, rank) ? map_of_gpu(m, rank) : COLL_OK;
  if (is_of_this_process(m, rank)) m->window->parts[rank] = (char *)(uintptr_t)part->address;
  return COLL_OK;
}

/* The own one first, which stays where another rank's cannot be mapped. */
static coll_status_t map_all(making_t *m) {
  COLL_TRY(map_part(m, m->comm->rank));
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (rank != m->comm->rank) COLL_TRY(map_part(m, rank));
  }
  return COLL_OK;
}

static void close_descriptors(making_t *m) {
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (m->descriptors[rank] >= 0) close(m->descriptors[rank]);
    m->descriptors[rank] = -1;
  }
}

/* ---- creation --------------------------------------------------------------------------------*/

/* Returns `status` with the text. */
static coll_status_t fail_again(coll_status_t status, const char *text) {
  return status == COLL_OK ? status : base_fail(status, "%s", text);
}

static coll_status_t gather_parts(making_t *m) {
  char text[COMM_ERROR_BYTES];
  part_t own;
  coll_status_t own_status = describe(m, &own);
  snprintf(text, sizeof text, "%s", base_last_error());
  own.failed = own_status != COLL_OK;
  COLL_TRY(run_allgather(m->comm, FLIGHT_WINDOW, &own, sizeof own, m->parts));
  COLL_TRY(fail_again(own_status, text));
  return check_parts(m);
}

/* A window that one rank cannot map serves no call, so none has it mapped. */
static void unmap_peers(const making_t *m) {
  struct coll_window *window = m->window;
  for (int rank = 0; rank < m->comm->size; rank++) {
    if (rank == m->comm->rank) continue;
    if (window->mappings[rank].address != 0) {
      (void)cuda_share_unmap(m->driver, &window->mappings[rank]);
    }
    window->parts[rank] = NULL;
  }
}

static bool any_is_apart(const making_t *m) {
  int rank = 0;
  while (rank < m->comm->size && m->outcomes[rank] != OUTCOME_APART) rank++;
  return rank < m->comm->size;
}

/* Tells the others how this rank's mapping went, for the reason of the last error. */
static coll_status_t agree(making_t *m, coll_status_t own_status) {
  char text[COMM_ERROR_BYTES];
  snprintf(text, sizeof text, "%s", base_last_error());
  if (m->is_apart && m->comm->access.reports) {
    fprintf(stderr, "libcoll: rank %d: calls do not use a window: %s\n", m->comm->rank, text);
  }
  const int32_t own = m->is_apart ? OUTCOME_APART : (int32_t)own_status;
  COLL_TRY(run_allgather(m->comm, FLIGHT_WINDOW, &own, sizeof own, m->outcomes));
  if (!m->is_apart) COLL_TRY(fail_again(own_status, text));
  COLL_TRY(check_outcomes(m));
  if (any_is_apart(m)) unmap_peers(m);
  return COLL_OK;
}

static coll_status_t make(making_t *m) {
  COLL_TRY(gather_parts(m));
  m->is_staged = any_is_staged(m);
  COLL_TRY(exchange_descriptors(m));
  coll_status_t own_status = map_all(m);
  close_descriptors(m);
  return agree(m, own_status);
}

static coll_status_t allocate(making_t *m) {
  size_t size = (size_t)m->comm->size;
  struct coll_window *window;
  COLL_TRY(base_handles_new(&windows, (void **)&m->window));
  window = m->window;
  window->comm = m->comm;
  COLL_TRY(base_alloc(size, sizeof *window->parts, "a window", (void **)&window->parts));
  COLL_TRY(base_alloc(size, sizeof *window->part_bytes, "a window", (void **)&window->part_bytes));
  COLL_TRY(base_alloc(size, sizeof *window->mappings, "a window", (void **)&window->mappings));
  COLL_TRY(base_alloc(size, sizeof *m->parts, "parts of a window", (void **)&m->parts));
  COLL_TRY(base_alloc(size, sizeof *m->to, "a set of ranks", (void **)&m->to));
  COLL_TRY(base_alloc(size, sizeof *m->from, "a set of ranks", (void **)&m->from));
  COLL_TRY(base_alloc(size, sizeof *m->outcomes, "outcomes", (void **)&m->outcomes));
  COLL_TRY(base_alloc(size, sizeof *m->descriptors, "descriptors", (void **)&m->descriptors));
  for (size_t rank = 0; rank < size; rank++) m->descriptors[rank] = -1;
  return COLL_OK;
}

/* Unmaps what is mapped, and frees the window, which is in no list. */
static coll_status_t discard(struct coll_window *window) {
  const cuda_driver_t *driver;
  coll_status_t status = COLL_OK;
  for (int rank = 0; window->mappings != NULL && rank < window->comm->size; rank++) {
    if (window->mappings[rank].address == 0 || cuda_driver_load(&driver) != COLL_OK) continue;
    coll_status_t unmapped = cuda_share_unmap(driver, &window->mappings[rank]);
    if (status == COLL_OK) status = unmapped;
  }
  free(window->mappings);
  free(window->part_bytes);
  free(window->parts);
  base_handles_free(&windows, window);
  return status;
}

static void free_making(making_t *m) {
  if (m->descriptor >= 0) close(m->descriptor);
  free(m->descriptors);
  free(m->outcomes);
  free(m->from);
  free(m->to);
  free(m->parts);
}

coll_status_t offload_window_create(struct coll_comm *comm, void *ptr, size_t bytes,
                                    struct coll_window **window) {
  char text[COMM_ERROR_BYTES];
  making_t m = {.comm = comm, .descriptor = -1};
  coll_status_t status = allocate(&m);
  if (status == COLL_OK) {
    m.window->ptr = ptr;
    m.window->bytes = bytes;
    m.window->device = CUDA_NO_DEVICE;
    status = make(&m);
  } else {
    comm_abort(comm, comm->rank, base_last_error()); /* the others wait for this rank */
  }
  free_making(&m);
  if (status != COLL_OK) {
    snprintf(text, sizeof text, "%s", base_last_error());
    if (m.window != NULL) (void)discard(m.window);
    return base_fail(status, "%s", text);
  }
  pthread_mutex_lock(&comm->lock);
  m.window->next = comm->windows.first;
  comm->windows.first = m.window;
  atomic_store_explicit(&m.window->tag, base_fork_tag + OFFLOAD_WINDOW, memory_order_release);
  pthread_mutex_unlock(&comm->lock);
  *window = m.window;
  return COLL_OK;
}

/* ---- later -----------------------------------------------------------------------------------*/

coll_status_t offload_window_check(const struct coll_window *window, bool *inherited) {
  uint64_t tag = base_handles_tag(&windows, window);
  *inherited = base_fork_inherited(tag) == OFFLOAD_WINDOW;
  if (*inherited || tag == base_fork_tag + OFFLOAD_WINDOW) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "%p is not a window, or it was destroyed already, perhaps with its communicator: "
      "use what coll_window_create set",
      (const void *)window);
}

coll_status_t offload_window_destroy(struct coll_window *window) {
  struct coll_comm *comm = window->comm;
  pthread_mutex_lock(&comm->lock);
  struct coll_window **link = &comm->windows.first;
  while (*link != window) link = &(*link)->next;
  *link = window->next;
  pthread_mutex_unlock(&comm->lock);
  return discard(window);
}

struct coll_window *offload_window_find(struct coll_comm *comm, const void *ptr, size_t bytes,
                                        size_t *offset) {
  struct coll_window *found = NULL;
  pthread_mutex_lock(&comm->lock);
  for (struct coll_window *w = comm->windows.first; w != NULL && found == NULL; w = w->next) {
    uintptr_t at = (uintptr_t)ptr - (uintptr_t)w->ptr;
    if (at > w->bytes || bytes > w->bytes - at) continue;
    found = w;
    *offset = at;
  }
  pthread_mutex_unlock(&comm->lock);
  return found;
}

void offload_windows_free(struct coll_comm *comm) {
  while (comm->windows.first != NULL) (void)offload_window_destroy(comm->windows.first);
}
