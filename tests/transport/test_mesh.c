/* Connections between ranks: slow, stopped and dead peers, unknown callers, and failures on other
 * ranks. */
#include <criterion/criterion.h>
#include <pthread.h>
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

/* The kernel reports the exit of a peer with unread notes before what that peer sent. */
Test(mesh, receives_what_a_peer_sent_before_it_died) {
  int pair[2], fd;
  cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  shm_mesh_t own = mesh_of(0, (int[]){-1, pair[0]}), other = mesh_of(1, (int[]){pair[1], -1});
  shm_note_t note = {.kind = SHM_NOTE_EXPORT, .segment = 7, .bytes = 4096}, received = {0};
  bool sent, got;
  cr_assert_eq(shm_mesh_send(&own, 1, &note, -1, &sent), COLL_OK);
  cr_assert(sent);
  cr_assert_eq(shm_mesh_send(&other, 0, &note, STDOUT_FILENO, &sent), COLL_OK);
  cr_assert(sent);
  close(pair[1]);
  cr_assert_eq(shm_mesh_recv(&own, 1, 0, &received, &fd, &got), COLL_OK);
  cr_assert(got, "a note was lost");
  cr_assert_eq(received.segment, 7);
  cr_assert_geq(fd, 0);
  close(fd);
  cr_assert_eq(shm_mesh_recv(&own, 1, 0, &received, &fd, &got), COLL_OK);
  cr_assert(!got && fd == -1);
  close(pair[0]);
}

/* Connects until the queue is full: a stopped rank accepts nothing. */
static void fill_queue(const shm_mesh_name_t *name) {
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

/* Of two ranks, `stopped` does nothing after it has started to listen. */
static void connect_to_stopped(int stopped) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(shm_mesh_listen(&meshes[rank], &names[rank]), COLL_OK);
  }
  fill_queue(&names[stopped]);
  uint64_t began_ns = base_clock_now_ns(), deadline_ns = began_ns + 700 * MS_NS;
  coll_status_t status =
      shm_mesh_connect(&meshes[1 - stopped], 1 - stopped, 2, names, 7, deadline_ns);
  cr_assert_eq(status, COLL_ERROR_TIMEOUT, "%s", base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "is it stopped?"), "%s", base_last_error());
  cr_assert_lt(base_clock_now_ns() - began_ns, 5000 * MS_NS);
  for (int rank = 0; rank < 2; rank++) shm_mesh_close(&meshes[rank]);
}

Test(mesh, waits_for_a_stopped_rank_until_the_deadline, .timeout = 60) {
  for (int stopped = 0; stopped < 2; stopped++) connect_to_stopped(stopped);
}

/* ---- callers that are slow, or unknown ------------------------------------------------------*/

enum { KEY = 7, SILENT = 5 };

/* The first packet of a connection (mesh.c). */
typedef struct hello {
  uint64_t key;
  int32_t rank;
} hello_t;

static int connect_silently(const shm_mesh_name_t *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name->length);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  cr_assert_eq(connect(fd, (struct sockaddr *)&address, length), 0);
  return fd;
}

typedef struct slow {
  int fd, rank;
  uint64_t pause_ns;
} slow_t;

static void *send_late_hello(void *argument) {
  const slow_t *slow = argument;
  const hello_t hello = {.key = KEY, .rank = slow->rank};
  base_clock_sleep_ns(slow->pause_ns);
  (void)!send(slow->fd, &hello, sizeof hello, MSG_NOSIGNAL);
  return NULL;
}

/* Ranks 1 and 2 connect and pause before they send their hellos; the one that connected last sends
 * first. Callers that never send a hello have connected before them. */
Test(mesh, waits_for_slow_hellos, .timeout = 60) {
  shm_mesh_t mesh;
  shm_mesh_name_t names[3];
  slow_t slow[2];
  pthread_t threads[2];
  int silent[SILENT];
  cr_assert_eq(shm_mesh_listen(&mesh, &names[0]), COLL_OK);
  for (int i = 0; i < SILENT; i++) silent[i] = connect_silently(&names[0]);
  for (int i = 0; i < 2; i++) {
    slow[i] = (slow_t){connect_silently(&names[0]), i + 1, (uint64_t)(900 - 500 * i) * MS_NS};
    cr_assert_eq(pthread_create(&threads[i], NULL, send_late_hello, &slow[i]), 0);
  }
  uint64_t began_ns = base_clock_now_ns();
  cr_assert_eq(shm_mesh_connect(&mesh, 0, 3, names, KEY, began_ns + 20000 * MS_NS), COLL_OK, "%s",
               base_last_error());
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    cr_assert(!shm_mesh_hung_up(&mesh, i + 1), "rank %d is not connected", i + 1);
    close(slow[i].fd);
  }
  for (int i = 0; i < SILENT; i++) close(silent[i]);
  shm_mesh_close(&mesh);
}

/* ---- failures elsewhere ---------------------------------------------------------------------*/

typedef struct failure {
  int checks;
} failure_t;

static coll_status_t fail_at_third_check(void *context) {
  failure_t *failure = context;
  if (++failure->checks < 3) return COLL_OK;
  return base_fail(COLL_ERROR_RANK_LOST, "rank 0: rank 5 died");
}

/* `waiting`: which of two ranks waits, for its peer to connect or to accept. */
static void fail_on_another_rank(int waiting) {
  failure_t failure = {0};
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(shm_mesh_listen(&meshes[rank], &names[rank]), COLL_OK);
  }
  const transport_watch_t watch = {.fd = -1, .check = fail_at_third_check, .context = &failure};
  meshes[waiting].watch = &watch;
  fill_queue(&names[1 - waiting]);
  uint64_t began_ns = base_clock_now_ns();
  coll_status_t status =
      shm_mesh_connect(&meshes[waiting], waiting, 2, names, KEY, began_ns + 20000 * MS_NS);
  cr_assert_eq(status, COLL_ERROR_RANK_LOST, "%s", base_last_error());
  cr_assert_str_eq(base_last_error(), "rank 0: rank 5 died");
  cr_assert_lt(base_clock_now_ns() - began_ns, 5000 * MS_NS);
  for (int rank = 0; rank < 2; rank++) shm_mesh_close(&meshes[rank]);
}

Test(mesh, stops_waiting_when_creation_failed_elsewhere, .timeout = 60) {
  for (int waiting = 0; waiting < 2; waiting++) fail_on_another_rank(waiting);
}
