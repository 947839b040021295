/*
 * One page of shared memory per run holds the state that the ranks share. The parent polls its
 * children every millisecond: no time here needs to be exact, and no signal handler is needed.
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#define POLL_NS 1000000
#define LOOK_MAX_NS (20 * POLL_NS)

typedef struct control {
  int size;
  _Atomic int started;                  /* set once all pids are known */
  _Atomic unsigned arrivals;            /* arrivals at harness_barrier in the whole run */
  _Atomic unsigned progress;            /* calls of harness_progress, by all ranks */
  _Atomic int ended[HARNESS_RANKS_MAX]; /* threads: 1 when the body has returned */
  pid_t pids[HARNESS_RANKS_MAX];
  char sentences[HARNESS_RANKS_MAX][HARNESS_SENTENCE_BYTES];
  _Alignas(64) unsigned char board[HARNESS_BOARD_BYTES];
} control_t;

/* The clock of the machine, also in programs whose ranks have a clock of their own
 * (virtual_time.h). */
static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(long duration_ns) {
  const struct timespec time = {.tv_nsec = duration_ns};
  nanosleep(&time, NULL);
}

static control_t *run;
static _Thread_local int own_rank;
static _Thread_local unsigned own_meetings;

static void begin(int size) {
  assert(size >= 1 && size <= HARNESS_RANKS_MAX);
  run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run == MAP_FAILED) abort();
  run->size = size;
}

static void describe(harness_result_t *result) {
  size_t length = 0;
  result->text[0] = '\0';
  for (int r = 0; r < result->size; r++) {
    const harness_rank_t *rank = &result->ranks[r];
    if (rank->end == HARNESS_RETURNED && rank->value == 0) continue;
    static const char *const ends[] = {"returned", "was killed by signal", "hung"};
    char value[16] = "";
    if (rank->end != HARNESS_HUNG) snprintf(value, sizeof value, " %d", rank->value);
    int written = snprintf(result->text + length, sizeof result->text - length,
                           "%srank %d %s%s%s%s", length > 0 ? "; " : "", r, ends[rank->end], value,
                           rank->sentence[0] != '\0' ? ": " : "", rank->sentence);
    length += (size_t)written;
    if (length >= sizeof result->text) return;
  }
  if (length == 0) snprintf(result->text, sizeof result->text, "all ranks returned 0");
}

/* hung: threads are still running and may access the shared state */
static bool finish(harness_result_t *result, bool hung) {
  bool good = true;
  for (int r = 0; r < result->size; r++) {
    memcpy(result->ranks[r].sentence, run->sentences[r], HARNESS_SENTENCE_BYTES);
    good = good && result->ranks[r].end == HARNESS_RETURNED && result->ranks[r].value == 0;
  }
  describe(result);
  if (!hung) {
    munmap(run, sizeof *run);
    run = NULL;
  }
  return good;
}

/* ---- processes ------------------------------------------------------------------------------*/

static _Noreturn void child_main(int rank, harness_body_t body, void *context) {
  setpgid(0, 0); /* so that its child processes can be killed with it */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  own_rank = rank;
  own_meetings = 0;
  while (!atomic_load(&run->started)) sched_yield();
  int code = body(rank, run->size, context);
  fflush(NULL);
  _exit(code);
}

/* Whether rank r has ended; if so, fills in its entry. */
static bool collect(int r, harness_rank_t *entry) {
  int status;
  if (waitpid(run->pids[r], &status, WNOHANG) != run->pids[r]) return false;
  entry->end = WIFSIGNALED(status) ? HARNESS_KILLED : HARNESS_RETURNED;
  entry->value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

static void kill_hung(const bool ended[], harness_result_t *result) {
  for (int r = 0; r < result->size; r++) {
    if (ended[r]) continue;
    kill(run->pids[r], SIGKILL);
    waitpid(run->pids[r], NULL, 0);
    result->ranks[r].end = HARNESS_HUNG;
  }
}

/* When a run ends although ranks are still running. */
typedef struct limit {
  uint64_t limit_ns, passed_ns, looked_ns;
  bool watched; /* each progress of a rank begins the time again; one failed rank ends the run */
  unsigned progress;
} limit_t;

static limit_t limit_begin(int limit_ms, bool watched) {
  return (limit_t){.limit_ns = (uint64_t)limit_ms * HARNESS_PATIENCE * UINT64_C(1000000),
                   .looked_ns = now_ns(),
                   .watched = watched};
}

/* Time in which the machine does not run this process, which looks every POLL_NS, hardly counts: it
 * may not run the ranks either. */
static bool limit_has_passed(limit_t *limit) {
  uint64_t time_ns = now_ns(), since_ns = time_ns - limit->looked_ns;
  limit->passed_ns += since_ns < LOOK_MAX_NS ? since_ns : LOOK_MAX_NS;
  limit->looked_ns = time_ns;
  return limit->passed_ns >= limit->limit_ns;
}

static bool limit_is_over(limit_t *limit, const bool ended[], const harness_result_t *result) {
  unsigned progress = atomic_load(&run->progress);
  if (limit->watched && progress != limit->progress) {
    limit->progress = progress;
    limit->passed_ns = 0;
  }
  for (int r = 0; limit->watched && r < result->size; r++) {
    const harness_rank_t *rank = &result->ranks[r];
    if (ended[r] && (rank->end == HARNESS_KILLED || rank->value != 0)) return true;
  }
  return limit_has_passed(limit);
}

static bool run_processes(int size, int limit_ms, bool watched, harness_body_t body, void *context,
                          harness_result_t *result) {
  begin(size);
  memset(result, 0, sizeof *result);
  result->size = size;
  fflush(NULL); /* otherwise each child prints it again */
  for (int r = 0; r < size; r++) {
    pid_t pid = fork();
    if (pid == 0) child_main(r, body, context);
    if (pid < 0) abort();
    run->pids[r] = pid;
  }
  atomic_store(&run->started, 1);
  limit_t limit = limit_begin(limit_ms, watched);
  bool ended[HARNESS_RANKS_MAX] = {false};
  int left = size;
  while (left > 0 && !limit_is_over(&limit, ended, result)) {
    for (int r = 0; r < size; r++) {
      if (ended[r] || !collect(r, &result->ranks[r])) continue;
      ended[r] = true;
      left--;
    }
    if (left > 0) sleep_ns(POLL_NS);
  }
  kill_hung(ended, result);
  for (int r = 0; r < size; r++)
    kill(-run->pids[r], SIGKILL); /* processes that the ranks started */
  return finish(result, false);
}

bool harness_run(int size, int timeout_ms, harness_body_t body, void *context,
                 harness_result_t *result) {
  return run_processes(size, timeout_ms, false, body, context, result);
}

bool harness_run_watched(int size, int stall_ms, harness_body_t body, void *context,
                         harness_result_t *result) {
  return run_processes(size, stall_ms, true, body, context, result);
}

/* ---- threads --------------------------------------------------------------------------------*/

typedef struct thread {
  int rank, value;
  harness_body_t body;
  void *context;
} thread_t;

static void *thread_main(void *argument) {
  thread_t *thread = argument;
  own_rank = thread->rank;
  own_meetings = 0;
  thread->value = thread->body(thread->rank, run->size, thread->context);
  atomic_store(&run->ended[thread->rank], 1);
  return NULL;
}

bool harness_run_threads(int size, int timeout_ms, harness_body_t body, void *context,
                         harness_result_t *result) {
  begin(size);
  memset(result, 0, sizeof *result);
  result->size = size;
  pthread_t handles[HARNESS_RANKS_MAX];
  thread_t *threads = calloc((size_t)size, sizeof *threads);
  if (threads == NULL) abort();
  for (int r = 0; r < size; r++) {
    threads[r] = (thread_t){r, 0, body, context};
    if (pthread_create(&handles[r], NULL, thread_main, &threads[r]) != 0) abort();
  }
  limit_t limit = limit_begin(timeout_ms, false);
  bool hung = false;
  for (int r = 0; r < size; r++) {
    while (!atomic_load(&run->ended[r]) && !limit_has_passed(&limit)) sleep_ns(POLL_NS);
    if (atomic_load(&run->ended[r])) {
      pthread_join(handles[r], NULL);
      result->ranks[r].value = threads[r].value;
    } else {
      result->ranks[r].end = HARNESS_HUNG;
      hung = true;
    }
  }
  if (!hung) free(threads);
  return finish(result, hung);
}

/* ---- for bodies -----------------------------------------------------------------------------*/

int harness_fail(const char *format, ...) {
  char *sentence = run->sentences[own_rank];
  if (sentence[0] != '\0') return 1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, HARNESS_SENTENCE_BYTES, format, arguments);
  va_end(arguments);
  return 1;
}

void harness_barrier_polling(void (*poll)(void *context), void *context) {
  control_t *control = run;
  own_meetings++;
  atomic_fetch_add(&control->arrivals, 1);
  while (atomic_load(&control->arrivals) < own_meetings * (unsigned)control->size) {
    if (poll != NULL) poll(context);
    sleep_ns(20000);
  }
}

void harness_barrier(void) {
  harness_barrier_polling(NULL, NULL);
}

void harness_progress(void) {
  atomic_fetch_add(&run->progress, 1);
}

bool harness_can_read_processes(void) {
  static int number = 4711; /* the child has a copy of it */
  int copy = 0;
  pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  struct iovec to = {&copy, sizeof copy}, from = {&number, sizeof number};
  bool can = pid > 0 && process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof copy;
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  return can;
}

int harness_machine_patience(void) {
  const char *text = getenv("COLL_TEST_PATIENCE");
  int patience = text != NULL ? (int)strtol(text, NULL, 10) : 1;
  return patience > 0 ? patience : 1;
}

void *harness_board(void) {
  return run->board;
}

void harness_may_leak(bool may) {
#if defined(__SANITIZE_ADDRESS__)
  if (may) {
    __lsan_disable();
  } else {
    __lsan_enable();
  }
#else
  (void)may;
#endif
}

#if defined(__SANITIZE_ADDRESS__)
static bool is_forked;

/* Called by LeakSanitizer before it checks (sanitizer/lsan_interface.h). */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void) {
  return is_forked;
}

void harness_forked(void) {
  is_forked = true;
}
#else
void harness_forked(void) {
}
#endif

void harness_kill(int rank) {
  kill(run->pids[rank], SIGKILL);
}

/* ---- ports ----------------------------------------------------------------------------------*/

/* Below those that the kernel chooses from: net.ipv4.ip_local_port_range. */
enum { PORT_FIRST = 15000, PORTS = 16000 };

static bool is_free(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)port);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0) close(fd);
  return bound;
}

int harness_free_port(void) {
  int first = (int)((long)getpid() * 61 % PORTS); /* tests at the same time begin apart */
  for (int i = 0; i < PORTS; i++) {
    int port = PORT_FIRST + (first + i) % PORTS;
    if (is_free(port)) return port;
  }
  return 0;
}
