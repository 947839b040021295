/* Notes between ranks: slow, stopped and ended peers, unknown senders, and failures on other ranks;
 * and which ranks still have a process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm/mesh.h"
#include "transport/shm/presence.h"

#define MS_NS UINT64_C(1000000)

enum { KEY = 7, STRANGERS = SHM_MESH_SILENT_MAX + 5 };

/* Two ranks that have joined. */
static void open_two(shm_mesh_t meshes[2], shm_mesh_name_t names[2]) {
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(shm_mesh_listen(&meshes[rank], &names[rank]), COLL_OK);
  }
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(shm_mesh_join(&meshes[rank], rank, 2, names, KEY), COLL_OK);
  }
}

static void close_two(shm_mesh_t meshes[2]) {
  for (int rank = 0; rank < 2; rank++) shm_mesh_close(&meshes[rank]);
}

static void send_number(const shm_mesh_t *mesh, int peer, uint64_t number) {
  const shm_note_t note = {.kind = SHM_NOTE_EXPORT, .segment = number, .bytes = 4096};
  bool sent;
  cr_assert_eq(shm_mesh_send(mesh, peer, &note, STDOUT_FILENO, &sent), COLL_OK);
  cr_assert(sent);
}

/* Returns the number of the next note; 0: there is none. */
static uint64_t receive_number(shm_mesh_t *mesh, int source) {
  shm_note_t note;
  int fd;
  bool got;
  cr_assert_eq(shm_mesh_recv(mesh, &note, &fd, &got), COLL_OK);
  if (!got) return 0;
  cr_assert_eq(note.source, source);
  cr_assert_geq(fd, 0);
  close(fd);
  return note.segment;
}

Test(mesh, receives_what_a_peer_sent_before_it_ended) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  open_two(meshes, names);
  for (uint64_t number = 1; number <= 3; number++) send_number(&meshes[1], 0, number);
  shm_mesh_close(&meshes[1]);
  for (uint64_t number = 1; number <= 3; number++) {
    cr_assert_eq(receive_number(&meshes[0], 1), number);
  }
  cr_assert_eq(receive_number(&meshes[0], 1), 0);
  bool sent;
  const shm_note_t note = {.kind = SHM_NOTE_REVOKE};
  cr_assert_eq(shm_mesh_send(&meshes[0], 1, &note, -1, &sent), COLL_OK);
  cr_assert(!sent, "a rank that has closed its socket receives nothing");
  cr_assert_eq(shm_mesh_send_until(&meshes[0], 1, &note, -1, UINT64_MAX), COLL_ERROR_RANK_LOST);
  close_two(meshes);
}

enum { MANY_NOTES = 20000 };

static void *send_many(void *argument) {
  const shm_mesh_t *mesh = argument;
  for (uint64_t number = 1; number <= MANY_NOTES; number++) {
    const shm_note_t note = {.kind = SHM_NOTE_EXPORT, .segment = number};
    bool sent = false;
    while (!sent && shm_mesh_send(mesh, 0, &note, STDOUT_FILENO, &sent) == COLL_OK) continue;
  }
  return NULL;
}

/* The receiver accepts connections while their notes are being sent. */
Test(mesh, receives_notes_of_a_peer_in_order, .timeout = 120) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  pthread_t thread;
  open_two(meshes, names);
  cr_assert_eq(pthread_create(&thread, NULL, send_many, &meshes[1]), 0);
  for (uint64_t expected = 1; expected <= MANY_NOTES;) {
    uint64_t number = receive_number(&meshes[0], 1);
    if (number == 0) continue;
    cr_assert_eq(number, expected);
    expected++;
  }
  pthread_join(thread, NULL);
  close_two(meshes);
}

static int connect_silently(const shm_mesh_name_t *name, int flags) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name->length);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | flags, 0);
  if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
  close(fd);
  return -1;
}

/* Connects until the queue is full: a stopped rank accepts nothing. */
static void fill_queue(const shm_mesh_name_t *name) {
  for (int fd = 0; fd >= 0;) {
    fd = connect_silently(name, SOCK_NONBLOCK);
    if (fd >= 0) close(fd);
  }
}

Test(mesh, waits_for_a_stopped_rank_until_the_deadline, .timeout = 60) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  shm_note_t note = {.kind = SHM_NOTE_SEGMENT};
  int fd;
  open_two(meshes, names);
  fill_queue(&names[1]);
  for (int waiting = 0; waiting < 2; waiting++) {
    uint64_t deadline_ns = base_clock_now_ns() + 700 * MS_NS;
    coll_status_t status =
        waiting == 0 ? shm_mesh_send_until(&meshes[0], 1, &note, STDOUT_FILENO, deadline_ns)
                     : shm_mesh_await(&meshes[1], 0, deadline_ns, &note, &fd);
    cr_assert_eq(status, COLL_ERROR_TIMEOUT, "%s", base_last_error());
    cr_assert_not_null(strstr(base_last_error(), "is it stopped?"), "%s", base_last_error());
    cr_assert_geq(base_clock_now_ns(), deadline_ns);
  }
  close_two(meshes);
}

/* ---- senders that are slow, or unknown ------------------------------------------------------*/

typedef struct slow {
  int fd;
  shm_note_t note;
} slow_t;

static void *send_late(void *argument) {
  const slow_t *slow = argument;
  base_clock_sleep_ns(400 * MS_NS);
  (void)!send(slow->fd, &slow->note, sizeof slow->note, MSG_NOSIGNAL);
  return NULL;
}

/* More strangers than are kept connect and send nothing, one sends a note of another communicator,
 * and rank 1 has connected long before it sends. */
Test(mesh, waits_for_a_slow_note_among_strangers, .timeout = 60) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  shm_note_t note;
  pthread_t thread;
  int strangers[STRANGERS], fd;
  open_two(meshes, names);
  for (int i = 0; i < STRANGERS; i++) strangers[i] = connect_silently(&names[0], 0);
  shm_note_t wrong = {.kind = SHM_NOTE_SEGMENT, .source = 1, .key = KEY + 1};
  cr_assert_gt(send(strangers[STRANGERS - 1], &wrong, sizeof wrong, 0), 0);
  slow_t slow = {.fd = connect_silently(&names[0], 0),
                 .note = {.kind = SHM_NOTE_SEGMENT, .source = 1, .key = KEY, .segment = 5}};
  cr_assert_eq(pthread_create(&thread, NULL, send_late, &slow), 0);
  uint64_t deadline_ns = base_clock_now_ns() + 20000 * MS_NS;
  cr_assert_eq(shm_mesh_await(&meshes[0], 1, deadline_ns, &note, &fd), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(note.segment, 5);
  cr_assert_eq(fd, -1);
  pthread_join(thread, NULL);
  close(slow.fd);
  for (int i = 0; i < STRANGERS; i++) close(strangers[i]);
  close_two(meshes);
}

/* ---- connections that are closed to make room -----------------------------------------------*/

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

static void (*before_sending)(void);   /* is called once */
static const slow_t *before_accepting; /* is sent once */
static bool no_descriptor_left;        /* the next accept finds */

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  void (*call)(void) = before_sending;
  before_sending = NULL;
  if (call != NULL) call();
  return __real_sendmsg(fd, message, flags);
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
  const slow_t *slow = before_accepting;
  before_accepting = NULL;
  if (slow != NULL) {
    cr_assert_gt(send(slow->fd, &slow->note, sizeof slow->note, MSG_NOSIGNAL), 0);
  }
  if (no_descriptor_left) {
    no_descriptor_left = false;
    errno = EMFILE;
    return -1;
  }
  return __real_accept4(fd, address, length, flags);
}

static shm_mesh_t pair[2];
static shm_mesh_name_t pair_names[2];
static int silent[SHM_MESH_SILENT_MAX];

static void connect_strangers(int count) {
  for (int i = 0; i < count; i++) silent[i] = connect_silently(&pair_names[0], 0);
}

static void close_strangers(int count) {
  for (int i = 0; i < count; i++) close(silent[i]);
}

/* Rank 1 has connected: it is the one that has been silent longest. */
static void make_room(void) {
  connect_strangers(SHM_MESH_SILENT_MAX);
  cr_assert_eq(receive_number(&pair[0], 1), 0);
}

static void use_last_descriptor(void) {
  cr_assert_eq(receive_number(&pair[0], 1), 0);
  no_descriptor_left = true;
  cr_assert_eq(receive_number(&pair[0], 1), 0);
}

Test(mesh, takes_a_peer_that_was_closed_before_it_sent, .timeout = 60) {
  void (*const closers[])(void) = {make_room, use_last_descriptor};
  for (int i = 0; i < 2; i++) {
    const shm_note_t note = {.kind = SHM_NOTE_SEGMENT, .segment = 5};
    uint64_t deadline_ns = base_clock_now_ns() + 20000 * MS_NS;
    open_two(pair, pair_names);
    before_sending = closers[i];
    cr_assert_eq(shm_mesh_send_until(&pair[1], 0, &note, STDOUT_FILENO, deadline_ns), COLL_OK, "%s",
                 base_last_error());
    cr_assert_eq(receive_number(&pair[0], 1), 5);
    if (i == 0) close_strangers(SHM_MESH_SILENT_MAX);
    close_two(pair);
  }
}

/* The note comes when the receiver has found none, and closes the connection for another one. */
Test(mesh, loses_no_note_that_came_before_its_connection_was_closed) {
  for (int i = 0; i < 2; i++) {
    open_two(pair, pair_names);
    const slow_t slow = {.fd = connect_silently(&pair_names[0], 0),
                         .note = {.kind = SHM_NOTE_REVOKE, .source = 1, .key = KEY, .segment = 6}};
    shm_note_t note;
    bool got;
    int fd;
    connect_strangers(SHM_MESH_SILENT_MAX - 1);
    cr_assert_eq(receive_number(&pair[0], 1), 0);
    silent[SHM_MESH_SILENT_MAX - 1] = connect_silently(&pair_names[0], 0);
    before_accepting = &slow;
    no_descriptor_left = i == 1;
    cr_assert_eq(shm_mesh_recv(&pair[0], &note, &fd, &got), COLL_OK);
    cr_assert(got && note.segment == 6 && fd == -1, "the note is lost");
    cr_assert_eq(receive_number(&pair[0], 1), 0);
    close(slow.fd);
    close_strangers(SHM_MESH_SILENT_MAX);
    close_two(pair);
  }
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

Test(mesh, stops_waiting_when_creation_failed_elsewhere, .timeout = 180) {
  shm_mesh_t meshes[2];
  shm_mesh_name_t names[2];
  shm_note_t note = {.kind = SHM_NOTE_SEGMENT};
  int fd;
  open_two(meshes, names);
  fill_queue(&names[1]);
  for (int waiting = 0; waiting < 2; waiting++) {
    failure_t failure = {0};
    const transport_watch_t watch = {.fd = -1, .check = fail_at_third_check, .context = &failure};
    meshes[waiting].watch = &watch;
    uint64_t began_ns = base_clock_now_ns(), deadline_ns = began_ns + 120000 * MS_NS;
    coll_status_t status = waiting == 0 ? shm_mesh_send_until(&meshes[0], 1, &note, -1, deadline_ns)
                                        : shm_mesh_await(&meshes[1], 0, deadline_ns, &note, &fd);
    cr_assert_eq(status, COLL_ERROR_RANK_LOST, "%s", base_last_error());
    cr_assert_str_eq(base_last_error(), "rank 0: rank 5 died");
    cr_assert_lt(base_clock_now_ns() - began_ns, 60000 * MS_NS);
  }
  close_two(meshes);
}

/* ---- ranks' processes -----------------------------------------------------------------------*/

/* A process that holds ranks `first` and first + 1, and has a child that outlives it. Both are in a
 * process group of their own. */
static pid_t start_holder(int segment, int first, int ready[2]) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  setpgid(0, 0);
  bool held = shm_presence_hold(segment, first) == COLL_OK &&
              shm_presence_hold(dup(segment), first + 1) == COLL_OK;
  if (fork() != 0) (void)!write(ready[1], &held, sizeof held);
  pause();
  _exit(0);
}

static bool ends_soon(int segment, int rank) {
  uint64_t deadline_ns = base_clock_now_ns() + 30000 * MS_NS;
  while (!shm_presence_has_ended(segment, rank)) {
    if (base_clock_now_ns() > deadline_ns) return false;
    base_clock_sleep_ns(MS_NS);
  }
  return true;
}

Test(presence, ends_with_the_process_alone, .timeout = 60) {
  int segment = memfd_create("test", MFD_CLOEXEC), ready[2];
  bool held = false;
  cr_assert_eq(pipe(ready), 0);
  pid_t pid = start_holder(segment, 4, ready);
  cr_assert_eq(read(ready[0], &held, sizeof held), (ssize_t)sizeof held);
  cr_assert(held);
  cr_assert(shm_presence_has_ended(segment, 3));
  cr_assert_eq(shm_presence_pid(segment, 3), 0);
  kill(pid, SIGSTOP);
  for (int rank = 4; rank < 6; rank++) {
    cr_assert(!shm_presence_has_ended(segment, rank));
    cr_assert_eq(shm_presence_pid(segment, rank), pid);
  }
  kill(pid, SIGKILL);
  for (int rank = 4; rank < 6; rank++) cr_assert(ends_soon(segment, rank), "rank %d", rank);
  kill(-pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(segment);
}

/* One of two ranks of a process leaves: the other one stays. */
Test(presence, outlasts_other_ranks_of_the_process, .timeout = 60) {
  int segment = memfd_create("test", MFD_CLOEXEC), second = dup(segment);
  cr_assert_eq(shm_presence_hold(segment, 0), COLL_OK);
  cr_assert_eq(shm_presence_hold(second, 1), COLL_OK);
  shm_presence_drop(segment, 0);
  pid_t pid = fork();
  if (pid == 0) {
    bool is_right = shm_presence_has_ended(second, 0) && !shm_presence_has_ended(second, 1);
    _exit(is_right ? 0 : 1);
  }
  int end;
  waitpid(pid, &end, 0);
  cr_assert(WIFEXITED(end) && WEXITSTATUS(end) == 0);
  shm_presence_drop(second, 1);
}
