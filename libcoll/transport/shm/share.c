/* What processes share when they create a communicator: rank 0 makes the files and sends their
 * descriptors to the others. */
#include <sys/random.h>
#include <unistd.h>

#include "flight/process.h"
#include "transport/shm/end.h"
#include "transport/shm/presence.h"

coll_status_t shm_share_directory(const shm_layout_t *layout, const shm_segment_t *segment) {
  uint64_t communicator;
  if (getrandom(&communicator, sizeof communicator, 0) != (ssize_t)sizeof communicator) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a communicator");
  }
  shm_layout_write_directory(layout, segment->base, communicator);
  return COLL_OK;
}

/* Sends both descriptors to all others. */
static coll_status_t send_files(shm_t *s, uint64_t deadline_ns) {
  const shm_note_t segment = {.kind = SHM_NOTE_SEGMENT, .bytes = s->layout.segment_bytes};
  const shm_note_t ranks = {.kind = SHM_NOTE_RANKS};
  for (int peer = 1; peer < s->mesh.size; peer++) {
    COLL_TRY(shm_mesh_send_until(&s->mesh, peer, &segment, s->segment->fd, deadline_ns));
    COLL_TRY(shm_mesh_send_until(&s->mesh, peer, &ranks, s->ranks, deadline_ns));
  }
  return COLL_OK;
}

/* Receives one of them. */
static coll_status_t await_file(shm_t *s, shm_note_kind_t kind, size_t bytes, uint64_t deadline_ns,
                                int *fd) {
  shm_note_t note;
  COLL_TRY(shm_mesh_await(&s->mesh, 0, deadline_ns, &note, fd));
  if (*fd >= 0 && note.kind == kind && note.bytes == bytes) return COLL_OK;
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: rank 0 did not send the communicator's shared memory", s->mesh.rank);
}

coll_status_t shm_share_files(shm_t *s, uint64_t deadline_ns) {
  size_t bytes = s->layout.segment_bytes;
  int fd;
  if (s->mesh.rank == 0) {
    COLL_TRY(shm_segment_create(bytes, "a communicator", &s->segment));
    COLL_TRY(shm_share_directory(&s->layout, s->segment));
    COLL_TRY(shm_presence_create(&s->ranks));
    return send_files(s, deadline_ns);
  }
  COLL_TRY(await_file(s, SHM_NOTE_SEGMENT, bytes, deadline_ns, &fd));
  COLL_TRY(shm_segment_open(fd, bytes, "a communicator", &s->segment));
  return await_file(s, SHM_NOTE_RANKS, 0, deadline_ns, &s->ranks);
}

coll_status_t shm_share_presence(shm_t *s) {
  int rank = s->transport.rank;
  shm_control_t *own = shm_end_control(s, rank);
  COLL_TRY(shm_presence_hold(s->ranks, rank));
  s->is_present = true;
  s->process = shm_presence_process();
  own->pid_space = flight_pid_space();
  /* release: the lock is held, and the namespace is visible */
  atomic_store_explicit(&own->process, s->process, memory_order_release);
  return COLL_OK;
}
