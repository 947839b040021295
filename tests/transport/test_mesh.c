/* Notes between two ranks, one of which is gone before they are read. */
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/shm/mesh.h"

static shm_mesh_t mesh_of(int rank, int sockets[2]) {
  return (shm_mesh_t){.rank = rank, .size = 2, .listener = -1, .sockets = sockets};
}

/* The kernel tells first of the end of a peer that had notes to read itself. */
Test(mesh, what_a_peer_sent_before_it_died_is_heard) {
  int pair[2], fd;
  cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  shm_mesh_t own = mesh_of(0, (int[]){-1, pair[0]}), other = mesh_of(1, (int[]){pair[1], -1});
  shm_note_t note = {.kind = SHM_NOTE_EXPORT, .segment = 7, .bytes = 4096}, heard = {0};
  bool sent, got;
  cr_assert_eq(shm_mesh_send(&own, 1, &note, -1, &sent), COLL_OK);
  cr_assert(sent);
  cr_assert_eq(shm_mesh_send(&other, 0, &note, STDOUT_FILENO, &sent), COLL_OK);
  cr_assert(sent);
  close(pair[1]);
  cr_assert_eq(shm_mesh_recv(&own, 1, 0, &heard, &fd, &got), COLL_OK);
  cr_assert(got, "a note was lost");
  cr_assert_eq(heard.segment, 7);
  cr_assert_geq(fd, 0);
  close(fd);
  cr_assert_eq(shm_mesh_recv(&own, 1, 0, &heard, &fd, &got), COLL_OK);
  cr_assert(!got && fd == -1);
  close(pair[0]);
}
