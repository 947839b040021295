/*
 * A socket between every two processes of a communicator. It transfers file descriptors of shared
 * memory, and the kernel closes it when a process dies, by which the others detect it. Abstract
 * Unix sockets: no file, and removed with the process.
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
  SHM_NOTE_EXPORT,      /* a buffer's segment; carries its descriptor */
  SHM_NOTE_REVOKE       /* that segment was freed: unmap it */
} shm_note_kind_t;

typedef struct shm_note {
  shm_note_kind_t kind;
  uint64_t segment;
  uint64_t bytes;
} shm_note_t;

typedef struct shm_mesh {
  int rank, size;
  int listener;                   /* -1 once connected */
  int *sockets;                   /* [size]; -1 for this rank */
  int *processes;                 /* [size]: pidfds; -1 for this rank, and if the kernel has none */
  const transport_watch_t *watch; /* during creation; NULL: none */
} shm_mesh_t;

/* Opens the listening socket. Owned by the caller: shm_mesh_close. */
coll_status_t shm_mesh_listen(shm_mesh_t *mesh, shm_mesh_name_t *name);

/* Connects with every other rank. All ranks pass the same names and the same key; connections
 * without the key are rejected. COLL_ERROR_RANK_LOST: a peer has closed its socket, because it died
 * or because creation failed there. COLL_ERROR_TIMEOUT: names a rank that did not connect.
 * Otherwise a failure of mesh->watch. */
coll_status_t shm_mesh_connect(shm_mesh_t *mesh, int rank, int size, const shm_mesh_name_t names[],
                               uint64_t key, uint64_t deadline_ns);

/* Waits until the peer has sent a note or has closed its end. COLL_ERROR_TIMEOUT, or a failure of
 * mesh->watch. */
coll_status_t shm_mesh_await(const shm_mesh_t *mesh, int peer, uint64_t deadline_ns);

/* Sends a note, with a descriptor (which stays the caller's) or -1. Does not block: *sent is false
 * if the peer's socket is full or the peer has exited. */
coll_status_t shm_mesh_send(shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd, bool *sent);

/* Receives the oldest note from the peer. *fd belongs to the caller; -1 if the note carries none.
 * Waits until the deadline (0: does not wait); *got: a note was received. */
coll_status_t shm_mesh_recv(shm_mesh_t *mesh, int peer, uint64_t deadline_ns, shm_note_t *note,
                            int *fd, bool *got);

/* The pid of the peer's process in this process's pid namespace; 0 if it is not visible there. */
int shm_mesh_pid(const shm_mesh_t *mesh, int peer);

/* Returns whether the peer has closed its end or its process has exited. The process is checked
 * too, because a child that the peer forked keeps the socket open. */
bool shm_mesh_hung_up(const shm_mesh_t *mesh, int peer);

void shm_mesh_close(shm_mesh_t *mesh);

#endif
