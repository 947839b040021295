/* Notes between two ranks, one of which is gone before they are read. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm/mesh.h"

#define MS_NS UINT64_C(1000000)

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

/* Callers until no more fit, as a rank that is stopped takes none. */
static void fill(const shm_mesh_name_t *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name->length);
  int failed = 0;
  while (failed == 0) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    failed = connect(fd, (struct sockaddr *)&address, length);
    close(fd);
  }
}

/* Of two ranks, which of them is stopped: it never gets further than to listen. */
static void meet_a_stopped_one(int stopped) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(shm_mesh_listen(&meshes[rank], &names[rank]), COLL_OK);
  }
  fill(&names[stopped]);
  uint64_t began_ns = base_clock_now_ns(), deadline_ns = began_ns + 700 * MS_NS;
  coll_status_t status =
      shm_mesh_connect(&meshes[1 - stopped], 1 - stopped, 2, names, 7, deadline_ns);
  cr_assert_eq(status, COLL_ERROR_TIMEOUT, "%s", base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "is it stopped?"), "%s", base_last_error());
  cr_assert_lt(base_clock_now_ns() - began_ns, 5000 * MS_NS);
  for (int rank = 0; rank < 2; rank++) shm_mesh_close(&meshes[rank]);
}

Test(mesh, of_a_stopped_rank_is_not_waited_for_longer_than_asked, .timeout = 60) {
  for (int stopped = 0; stopped < 2; stopped++) meet_a_stopped_one(stopped);
}
