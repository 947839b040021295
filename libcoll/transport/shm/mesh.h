/*
 * Notes between the processes of one host, with file descriptors. Every rank has one UNIX socket,
 * which listens for as long as the communicator exists. A note is a connection of its own: the
 * sender connects, sends, and closes, without waiting for the receiver, who finds it among the
 * pending connections when it next looks. So a rank holds one descriptor, however many ranks there
 * are.
 */
#ifndef TRANSPORT_SHM_MESH_H
#define TRANSPORT_SHM_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/watch.h"

#define SHM_MESH_NAME_BYTES 16

/* Socket address of a rank, exchanged by the communicator's bootstrap. */
typedef struct shm_mesh_name {
  uint8_t length;
  char text[SHM_MESH_NAME_BYTES - 1]; /* abstract address: begins with a NUL */
} shm_mesh_name_t;

typedef enum shm_note_kind {
  SHM_NOTE_SEGMENT = 1, /* the communicator's own segment; carries its descriptor */
  SHM_NOTE_RANKS,       /* the file of presence.h; carries its descriptor */
  SHM_NOTE_EXPORT,      /* a buffer's segment; carries its descriptor */
  SHM_NOTE_REVOKE,      /* that segment was freed: unmap it */
  SHM_NOTE_PASS         /* carries a descriptor of passes.h; `segment` is its tag */
} shm_note_kind_t;

typedef struct shm_note {
  shm_note_kind_t kind;
  int32_t source; /* the sender's rank; set by shm_mesh_send */
  uint64_t key;   /* the communicator's; set by shm_mesh_send */
  uint64_t segment;
  uint64_t bytes;
} shm_note_t;

#define SHM_MESH_SILENT_MAX 64 /* when full, the oldest one is closed; its peer tries again */

typedef struct shm_mesh {
  int rank, size;
  int listener;           /* -1: closed */
  uint64_t key;           /* notes without it are dropped */
  shm_mesh_name_t *names; /* [size]; NULL: not joined */
  /* Connections whose note has not arrived yet, oldest first. */
  int silent[SHM_MESH_SILENT_MAX];
  int silent_count;
  bool cut; /* the descriptor of the last note is lost: this process may open no more files */
  const transport_watch_t *watch; /* during creation; NULL: none */
} shm_mesh_t;

/* Opens the listening socket. Owned by the caller: shm_mesh_close. */
coll_status_t shm_mesh_listen(shm_mesh_t *mesh, shm_mesh_name_t *name);

/* Learns the names of all ranks. All pass the same names and the same key. COLL_ERROR_MEMORY. */
coll_status_t shm_mesh_join(shm_mesh_t *mesh, int rank, int size, const shm_mesh_name_t names[],
                            uint64_t key);

/* Sends a note, with a descriptor (which stays the caller's) or -1. Does not block: *sent is false
 * if too many connections to the peer are pending, the peer has exited, one of the two processes
 * can open no more files, or the peer has closed the connection to make room. */
coll_status_t shm_mesh_send(const shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd,
                            bool *sent);

/* The same, and waits for room. COLL_ERROR_RANK_LOST: the peer has exited, or its creation failed.
 * COLL_ERROR_TIMEOUT, or a failure of mesh->watch. */
coll_status_t shm_mesh_send_until(const shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd,
                                  uint64_t deadline_ns);

/* Receives a pending note of any peer; those of one peer come in order. *fd belongs to the caller;
 * -1 if the note carries none. Does not block; *got: a note was received. */
coll_status_t shm_mesh_recv(shm_mesh_t *mesh, shm_note_t *note, int *fd, bool *got);

/* The same, and waits for one from `peer` in particular, whose absence the error is about; notes of
 * others are dropped. COLL_ERROR_TIMEOUT, or a failure of mesh->watch. */
coll_status_t shm_mesh_await(shm_mesh_t *mesh, int peer, uint64_t deadline_ns, shm_note_t *note,
                             int *fd);

void shm_mesh_close(shm_mesh_t *mesh);

#endif
