/*
 * Between processes, a descriptor is the only content of a note. The ranks of a communicator that
 * is all in one process may have no sockets; there, a duplicate waits in a table of the process.
 */
#include "transport/shm/passes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "transport/shm/end.h"

#define KEPT_MAX (16 * TRANSPORT_PASSES) /* of one peer */

/* ---- those of other processes ----------------------------------------------------------------*/

static size_t count_of(const shm_passes_t *passes, int peer) {
  size_t count = 0;
  for (size_t i = 0; i < passes->count; i++) count += passes->kept[i].peer == peer;
  return count;
}

static coll_status_t add(shm_passes_t *passes, const shm_pass_t *pass) {
  if (count_of(passes, pass->peer) >= KEPT_MAX) {
    return base_fail(COLL_ERROR_SYSTEM,
                     "rank %d has passed %d file descriptors that this rank did not expect",
                     pass->peer, KEPT_MAX);
  }
  COLL_TRY(base_grow((void **)&passes->kept, &passes->capacity, passes->count + 1,
                     sizeof *passes->kept, "file descriptors of peers"));
  passes->kept[passes->count++] = *pass;
  return COLL_OK;
}

coll_status_t shm_passes_keep(shm_passes_t *passes, int peer, uint64_t tag, int descriptor) {
  const shm_pass_t pass = {.peer = peer, .descriptor = descriptor, .tag = tag};
  coll_status_t status = add(passes, &pass);
  if (status != COLL_OK && descriptor >= 0) close(descriptor);
  return status;
}

bool shm_passes_find(shm_passes_t *passes, int peer, uint64_t tag, shm_pass_t *found) {
  for (size_t i = 0; i < passes->count; i++) {
    if (passes->kept[i].peer != peer || passes->kept[i].tag != tag) continue;
    *found = passes->kept[i];
    passes->count--;
    memmove(&passes->kept[i], &passes->kept[i + 1], (passes->count - i) * sizeof *passes->kept);
    return true;
  }
  return false;
}

void shm_passes_close(shm_passes_t *passes) {
  for (size_t i = 0; i < passes->count; i++) {
    if (passes->kept[i].descriptor >= 0) close(passes->kept[i].descriptor);
  }
  free(passes->kept);
  *passes = (shm_passes_t){0};
}

/* ---- those of this process -------------------------------------------------------------------*/

typedef struct local_pass {
  uint64_t communicator;
  int source, destination;
  int descriptor;
  uint64_t tag;
} local_pass_t;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static local_pass_t *table; /* oldest first; all three protected by table_lock */
static size_t table_count, table_capacity;
BASE_FORK_PART(&table_lock, NULL);

static uint64_t communicator_of(const shm_t *s) {
  return shm_layout_head(s->segment->base)->directory.communicator;
}

static bool is_between(const local_pass_t *pass, uint64_t communicator, int source,
                       int destination) {
  return pass->communicator == communicator && pass->destination == destination &&
         (source < 0 || pass->source == source);
}

static void remove_at(size_t index) {
  table_count--;
  memmove(&table[index], &table[index + 1], (table_count - index) * sizeof *table);
  if (table_count > 0) return;
  free(table);
  table = NULL;
  table_capacity = 0;
}

static size_t waiting(uint64_t communicator, int source, int destination) {
  size_t count = 0;
  for (size_t i = 0; i < table_count; i++) {
    count += is_between(&table[i], communicator, source, destination);
  }
  return count;
}

/* Under the lock: a peer that leaves empties the table of what was passed to it, and gets no more.
 */
static coll_status_t put(shm_t *s, int peer, uint64_t tag, int descriptor, bool *done) {
  const shm_control_t *control = shm_end_control(s, peer);
  uint64_t communicator = communicator_of(s);
  *done = atomic_load_explicit(&control->left, memory_order_acquire) != 0;
  if (*done || waiting(communicator, s->transport.rank, peer) >= KEPT_MAX) return COLL_OK;
  COLL_TRY(base_grow((void **)&table, &table_capacity, table_count + 1, sizeof *table,
                     "file descriptors of ranks"));
  int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 && errno != EMFILE) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot pass a file descriptor to rank %d",
                           s->transport.rank, peer);
  }
  *done = copy >= 0;
  if (copy >= 0) {
    table[table_count++] = (local_pass_t){.communicator = communicator,
                                          .source = s->transport.rank,
                                          .destination = peer,
                                          .descriptor = copy,
                                          .tag = tag};
  }
  return COLL_OK;
}

static coll_status_t pass_locally(shm_t *s, int peer, uint64_t tag, int descriptor, bool *done) {
  pthread_mutex_lock(&table_lock);
  coll_status_t status = put(s, peer, tag, descriptor, done);
  pthread_mutex_unlock(&table_lock);
  return status;
}

static void take_locally(const shm_t *s, int peer, uint64_t tag, int *descriptor, bool *done) {
  uint64_t communicator = communicator_of(s);
  *done = false;
  pthread_mutex_lock(&table_lock);
  for (size_t i = 0; i < table_count && !*done; i++) {
    if (table[i].tag != tag || !is_between(&table[i], communicator, peer, s->transport.rank)) {
      continue;
    }
    *descriptor = table[i].descriptor;
    *done = true;
    remove_at(i);
  }
  pthread_mutex_unlock(&table_lock);
}

void shm_passes_drop(const shm_t *s) {
  if (!s->one_process) return;
  uint64_t communicator = communicator_of(s);
  pthread_mutex_lock(&table_lock);
  for (size_t i = table_count; i-- > 0;) {
    if (!is_between(&table[i], communicator, -1, s->transport.rank)) continue;
    close(table[i].descriptor);
    remove_at(i);
  }
  pthread_mutex_unlock(&table_lock);
}

/* ---- slots -----------------------------------------------------------------------------------*/

coll_status_t shm_passes_pass(transport_t *t, int peer, uint64_t tag, int descriptor, bool *done) {
  shm_t *s = shm_end_of(t);
  if (s->one_process) {
    COLL_TRY(pass_locally(s, peer, tag, descriptor, done));
  } else {
    const shm_note_t note = {.kind = SHM_NOTE_PASS, .segment = tag};
    COLL_TRY(shm_mesh_send(&s->mesh, peer, &note, descriptor, done));
    /* The peer may itself have no room left to pass to this rank. */
    if (!*done) COLL_TRY(shm_buffers_read_notes(&s->buffers, &s->mesh));
  }
  if (*done) shm_wakeup_notify(shm_end_control(s, peer));
  return COLL_OK;
}

coll_status_t shm_passes_take(transport_t *t, int peer, uint64_t tag, int *descriptor, bool *done) {
  shm_t *s = shm_end_of(t);
  shm_pass_t pass;
  if (s->one_process) {
    take_locally(s, peer, tag, descriptor, done);
    return COLL_OK;
  }
  *done = shm_passes_find(&s->buffers.passes, peer, tag, &pass);
  if (!*done) {
    COLL_TRY(shm_buffers_read_notes(&s->buffers, &s->mesh));
    *done = shm_passes_find(&s->buffers.passes, peer, tag, &pass);
  }
  if (!*done) return COLL_OK;
  *descriptor = pass.descriptor;
  if (pass.descriptor >= 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM,
                   "rank %d: a file descriptor of rank %d was lost: this process can open no more "
                   "files (ulimit -n)",
                   t->rank, peer);
}
