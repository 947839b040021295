/* One poll loop handles everything, signals included (signalfd), so there are no races. Every rank
 * leads a process group. Signals go to the whole group. When a rank exits, its group is killed
 * before the rank is reaped: until then its zombie keeps the process id from being reused. */
#include "tools/collrun/job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/tool.h"
#include "tools/collrun/output_forward.h"
#include "tools/collrun/secret.h"
#include "tools/collrun/stdin_forward.h"
#include "tools/collrun/table.h"

#define NS_PER_MS 1000000u
/* Time to wait for further output after the last rank has exited; processes that left the group of
 * a rank may still write. */
#define DRAIN_MS 500
#define OTHER_POLLFDS 3 /* signals, input, callers for the secret; then the outputs */
#define NAME_BYTES (COLLRUN_HOST_BYTES + 32)

/* All of these are forwarded, except SIGQUIT, which prints the table of ranks. */
static const int handled_signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                      SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* The state of a job; it determines what happens at the next deadline. */
typedef enum stage {
  STAGE_RUNNING, /* no deadline */
  STAGE_GRACE,   /* a rank failed; SIGTERM at the deadline */
  STAGE_TERM,    /* SIGTERM was sent; SIGKILL at the deadline */
  STAGE_KILL     /* SIGKILL was sent; no deadline */
} stage_t;

typedef struct job {
  const collrun_settings_t *settings;
  int count;                 /* of processes: ranks, or agents */
  collrun_rank_t *ranks;     /* [count] */
  collrun_output_t *outputs; /* two per rank when output is prefixed, else none */
  struct pollfd *pollfds;
  size_t output_count;
  collrun_stdin_t input;
  collrun_secret_t secret;
  int signals; /* the signalfd */
  int running;
  int forwarded_signal; /* the latest forwarded signal that ends a process; 0: none */
  bool is_orphaned;     /* as an agent: the collrun that started it has ended */
  int exit_code;
  stage_t stage;
  uint64_t deadline_ns;
} job_t;

static void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Uses one write call, as ranks may write to standard error too. */
static void print_message(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "collrun: %s\n", text);
}

static void write_all(const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t written = write(STDERR_FILENO, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    bytes -= (size_t)written;
  }
}

/* always: print it even if no rank has a communicator. */
static void print_table(const job_t *job, bool always) {
  char *text = NULL;
  int communicators;
  if (collrun_table_make(job->ranks, job->count, &text, &communicators) != COLL_OK) {
    print_message("no table of ranks: %s", base_last_error());
  } else if (always || communicators > 0) {
    print_message("what the ranks do:");
    write_all(text, strlen(text));
  }
  free(text);
}

static void signal_all(const job_t *job, int number) {
  for (int rank = 0; rank < job->count; rank++) {
    if (job->ranks[rank].pid > 0) kill(-job->ranks[rank].pid, number);
  }
}

static void set_deadline(job_t *job, stage_t stage, int64_t from_now_ms) {
  job->stage = stage;
  job->deadline_ns = base_clock_now_ns() + (uint64_t)from_now_ms * NS_PER_MS;
}

/* "rank 3", or "the agent of host a". */
static void name_child(const job_t *job, int child, char name[NAME_BYTES]) {
  const collrun_settings_t *settings = job->settings;
  if (settings->hosts.count > 0) {
    snprintf(name, NAME_BYTES, "the agent of host %s", settings->hosts.list[child].name);
  } else {
    snprintf(name, NAME_BYTES, "rank %d", settings->first_rank + child);
  }
}

/* SIGTERM, and SIGKILL after the grace period. */
static void terminate_all(job_t *job) {
  signal_all(job, SIGTERM);
  signal_all(job, SIGCONT);
  set_deadline(job, STAGE_TERM, job->settings->grace_ms);
}

/* Prints the first failure, unless a forwarded signal ended the rank. A rank whose reader is gone
 * has not failed: the job ends with it, as any program does. */
static void record_failure(job_t *job, int rank, const siginfo_t *end) {
  if (job->exit_code != 0) return;
  bool by_signal = end->si_code != CLD_EXITED;
  job->exit_code = by_signal ? 128 + end->si_status : end->si_status;
  if (job->exit_code == 128 + SIGPIPE && base_tool_pipe_is_closed(STDOUT_FILENO)) {
    terminate_all(job);
    return;
  }
  char name[NAME_BYTES];
  name_child(job, rank, name);
  if (by_signal && end->si_status != job->forwarded_signal) {
    print_message("%s (pid %d) was ended by signal %d (%s%s)", name, (int)end->si_pid,
                  end->si_status, strsignal(end->si_status),
                  end->si_code == CLD_DUMPED ? ", core dumped" : "");
  } else if (!by_signal) {
    print_message("%s (pid %d) exited with code %d", name, (int)end->si_pid, end->si_status);
  }
  if (job->stage == STAGE_RUNNING) set_deadline(job, STAGE_GRACE, job->settings->grace_ms);
}

static int rank_of(const job_t *job, pid_t pid) {
  for (int rank = 0; rank < job->count; rank++) {
    if (job->ranks[rank].pid == pid) return rank;
  }
  return -1;
}

static coll_status_t reap(job_t *job) {
  for (;;) {
    siginfo_t end = {0};
    if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != ECHILD) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "cannot wait for the ranks to end");
    }
    if (end.si_pid == 0) return COLL_OK;
    int rank = rank_of(job, end.si_pid);
    if (rank >= 0) {
      kill(-end.si_pid, SIGKILL);
      job->ranks[rank].pid = 0;
      job->running--;
    }
    waitpid(end.si_pid, NULL, 0);
    bool failed = end.si_code != CLD_EXITED || end.si_status != 0;
    if (rank >= 0 && failed) record_failure(job, rank, &end);
  }
}

static coll_status_t handle_signal(job_t *job, int number) {
  if (number == SIGCHLD) return reap(job);
  if (number == SIGQUIT) {
    print_table(job, true);
    return COLL_OK;
  }
  bool pauses = number == SIGTSTP || number == SIGCONT;
  bool ends = !pauses && number != SIGUSR1 && number != SIGUSR2;
  if (!ends && collrun_agent_is_ssh(job->settings))
    return COLL_OK; /* ssh alone would end or stop */
  if (ends) job->forwarded_signal = number;
  signal_all(job, number);
  if (number == SIGTSTP) raise(SIGSTOP);
  return COLL_OK;
}

static coll_status_t handle_signals(job_t *job) {
  struct signalfd_siginfo arrived;
  while (read(job->signals, &arrived, sizeof arrived) == (ssize_t)sizeof arrived) {
    COLL_TRY(handle_signal(job, (int)arrived.ssi_signo));
  }
  return COLL_OK;
}

static void print_running_ranks(const job_t *job) {
  char list[256] = "";
  size_t used = 0;
  for (int rank = 0; rank < job->count && used + 16 < sizeof list; rank++) {
    if (job->ranks[rank].pid == 0) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used > 0 ? ", " : "",
                             job->settings->first_rank + rank);
  }
  if (job->settings->hosts.count > 0) {
    print_message("stopping the ranks of the other hosts");
  } else {
    print_message("stopping the ranks that still run: %s%s", list,
                  used + 16 < sizeof list ? "" : " ...");
  }
}

static void handle_deadline(job_t *job) {
  if (job->stage == STAGE_GRACE) {
    if (job->forwarded_signal == 0) print_table(job, false);
    print_running_ranks(job);
    terminate_all(job);
  } else {
    signal_all(job, SIGKILL);
    job->stage = STAGE_KILL;
  }
}

/* Milliseconds until the deadline for poll, rounded up; -1: no deadline. */
static int wait_ms(const job_t *job) {
  if (job->stage == STAGE_RUNNING || job->stage == STAGE_KILL) return -1;
  uint64_t now_ns = base_clock_now_ns();
  if (now_ns >= job->deadline_ns) return 0;
  return (int)((job->deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* An agent's standard input has ended, or the terminal has input for rank 0. */
static void handle_input(job_t *job) {
  char unused[64];
  if (!job->settings->is_agent) {
    collrun_stdin_forward(&job->input);
    return;
  }
  ssize_t got = read(STDIN_FILENO, unused, sizeof unused);
  if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) return;
  print_message(
      "standard input has ended: the collrun that started this agent is gone, or --agent "
      "passes no input on (docker exec needs -i)");
  job->is_orphaned = true;
  job->forwarded_signal = SIGTERM;
  terminate_all(job);
}

static struct pollfd input_pollfd(const job_t *job) {
  if (!job->settings->is_agent) return collrun_stdin_pollfd(&job->input);
  return (struct pollfd){.fd = job->is_orphaned ? -1 : STDIN_FILENO, .events = POLLIN};
}

/* One iteration of the loop. */
static coll_status_t poll_once(job_t *job, int timeout_ms) {
  job->pollfds[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
  job->pollfds[1] = input_pollfd(job);
  job->pollfds[2] = (struct pollfd){.fd = job->secret.listener, .events = POLLIN};
  struct pollfd *outputs = job->pollfds + OTHER_POLLFDS;
  for (size_t i = 0; i < job->output_count; i++) {
    outputs[i] = (struct pollfd){.fd = job->outputs[i].from, .events = POLLIN};
  }
  int found = poll(job->pollfds, OTHER_POLLFDS + job->output_count, timeout_ms);
  if (found < 0 && errno != EINTR) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot wait for the ranks' output");
  }
  if (found <= 0) return COLL_OK;
  for (size_t i = 0; i < job->output_count; i++) {
    if (outputs[i].revents != 0) COLL_TRY(collrun_output_forward(&job->outputs[i]));
  }
  if (job->pollfds[2].revents != 0) COLL_TRY(collrun_secret_serve(&job->secret));
  if (job->pollfds[1].revents != 0) handle_input(job);
  return job->pollfds[0].revents != 0 ? handle_signals(job) : COLL_OK;
}

static bool output_open(const job_t *job) {
  for (size_t i = 0; i < job->output_count; i++) {
    if (job->outputs[i].from >= 0) return true;
  }
  return false;
}

static coll_status_t wait_for_all(job_t *job) {
  while (job->running > 0) {
    int timeout_ms = wait_ms(job);
    if (timeout_ms == 0) {
      handle_deadline(job);
      continue;
    }
    COLL_TRY(poll_once(job, timeout_ms));
  }
  uint64_t until_ns = base_clock_now_ns() + (uint64_t)DRAIN_MS * NS_PER_MS;
  while (output_open(job) && base_clock_now_ns() < until_ns) COLL_TRY(poll_once(job, DRAIN_MS));
  return COLL_OK;
}

static coll_status_t start_all(job_t *job, const collrun_spawn_t *spawn, int *exit_code) {
  for (int rank = 0; rank < job->count; rank++) {
    collrun_rank_t *started = &job->ranks[rank];
    COLL_TRY(collrun_rank_spawn(spawn, rank, started, exit_code));
    job->running++;
    if (rank == 0 && job->settings->hosts.count == 0) job->input.to = started->in;
    if (job->settings->hosts.count > 0) collrun_secret_send(&job->secret, started->in);
    if (started->out < 0) continue;
    int number = job->settings->first_rank + rank;
    collrun_output_open(started->out, stdout, number, &job->outputs[job->output_count++]);
    collrun_output_open(started->err, stderr, number, &job->outputs[job->output_count++]);
  }
  return COLL_OK;
}

/* Kills the ranks that still run and closes all descriptors. */
static void kill_all(job_t *job) {
  for (int rank = 0; rank < job->count; rank++) {
    pid_t pid = job->ranks[rank].pid;
    if (pid == 0) continue;
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  for (size_t i = 0; i < job->output_count; i++) collrun_output_close(&job->outputs[i]);
  collrun_stdin_close(&job->input);
}

static coll_status_t open_signals(sigset_t *before, int *signals) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < sizeof handled_signals / sizeof handled_signals[0]; i++)
    sigaddset(&set, handled_signals[i]);
  sigprocmask(SIG_BLOCK, &set, before);
  signal(SIGPIPE, SIG_IGN);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot open a signal descriptor");
  *signals = fd;
  return COLL_OK;
}

static coll_status_t allocate(job_t *job) {
  size_t ranks = (size_t)job->count;
  void *memory;
  COLL_TRY(base_alloc(ranks, sizeof(collrun_rank_t), "the ranks", &memory));
  job->ranks = memory;
  COLL_TRY(base_alloc(2 * ranks, sizeof(collrun_output_t), "the output of the ranks", &memory));
  job->outputs = memory;
  COLL_TRY(base_alloc(OTHER_POLLFDS + 2 * ranks, sizeof(struct pollfd), "the poll list", &memory));
  job->pollfds = memory;
  return COLL_OK;
}

coll_status_t collrun_job_run(const collrun_settings_t *settings, const topo_machine_t *machine,
                              const collrun_address_t *address, int *exit_code) {
  job_t job = {.settings = settings,
               .count = collrun_children(settings),
               .input = {.to = -1},
               .secret = {.listener = -1},
               .signals = -1};
  collrun_spawn_t spawn = {.settings = settings, .machine = machine, .address = *address};
  int failed_code = BASE_EXIT_FAILED;
  coll_status_t status = allocate(&job);
  if (status != COLL_OK) goto free_memory;
  status = collrun_secret_open(settings->is_agent, settings->hosts.count == 0, &job.secret);
  if (status != COLL_OK) goto free_memory;
  spawn.secret_socket = job.secret.name;
  status = open_signals(&spawn.signal_mask, &job.signals);
  if (status != COLL_OK) goto free_memory;
  status = start_all(&job, &spawn, &failed_code);
  if (status == COLL_OK) status = wait_for_all(&job);
  kill_all(&job);
  close(job.signals);
free_memory:
  collrun_secret_close(&job.secret);
  free(job.pollfds);
  free(job.outputs);
  free(job.ranks);
  *exit_code = status == COLL_OK ? job.exit_code : failed_code;
  return status;
}
