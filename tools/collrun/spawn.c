/* fork and exec. The child reports an error through a pipe that a successful exec closes, so the
 * parent's read returns either the error or end of file. */
#include "tools/collrun/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"

#define PATH_BYTES 4096

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* The descriptors of one standard stream: in the child and in collrun. */
typedef struct stream_pair {
  int child, parent;
} stream_pair_t;

typedef struct streams {
  stream_pair_t in, out, err;
} streams_t;

static void close_if_open(int fd) {
  if (fd >= 0) close(fd);
}

static void close_child_ends(const streams_t *streams) {
  close_if_open(streams->in.child);
  close_if_open(streams->out.child);
  close_if_open(streams->err.child);
}

static void close_parent_ends(const streams_t *streams) {
  close_if_open(streams->in.parent);
  close_if_open(streams->out.parent);
  close_if_open(streams->err.parent);
}

static coll_status_t open_pipe(bool child_reads, stream_pair_t *pair) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create a pipe");
  *pair = child_reads ? (stream_pair_t){ends[0], ends[1]} : (stream_pair_t){ends[1], ends[0]};
  /* collrun must not block on a rank that does not read or write. */
  fcntl(pair->parent, F_SETFL, O_NONBLOCK);
  return COLL_OK;
}

static coll_status_t open_file(const char *path, int flags, stream_pair_t *pair) {
  int fd = open(path, flags | O_CLOEXEC, 0666);
  if (fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot open %s", path);
  *pair = (stream_pair_t){fd, -1};
  return COLL_OK;
}

/* An agent gets a pipe that ends with collrun. Rank 0 gets the standard input of collrun. Input
 * from a terminal goes through a pipe, because the terminal would stop rank 0, which is in a
 * background process group, at its first read. */
static coll_status_t open_input(const collrun_settings_t *settings, int child,
                                stream_pair_t *pair) {
  if (settings->hosts.count > 0) return open_pipe(true, pair);
  if (settings->is_agent || child != 0) return open_file("/dev/null", O_RDONLY, pair);
  if (isatty(STDIN_FILENO)) return open_pipe(true, pair);
  *pair = (stream_pair_t){-1, -1};
  return COLL_OK;
}

static coll_status_t open_output(const collrun_settings_t *settings, int child, const char *suffix,
                                 stream_pair_t *pair) {
  *pair = (stream_pair_t){-1, -1};
  if (settings->hosts.count > 0) return COLL_OK;
  if (settings->prefix) return open_pipe(false, pair);
  if (settings->output == NULL) return COLL_OK;
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/rank-%d.%s", settings->output,
                        settings->first_rank + child, suffix);
  if (length >= (int)sizeof path) {
    return base_fail(COLL_ERROR_INVALID, "--output %s: the path is too long", settings->output);
  }
  return open_file(path, O_WRONLY | O_CREAT | O_TRUNC, pair);
}

static coll_status_t open_streams(const collrun_settings_t *settings, int child,
                                  streams_t *streams) {
  coll_status_t status = open_input(settings, child, &streams->in);
  if (status == COLL_OK) status = open_output(settings, child, "out", &streams->out);
  if (status == COLL_OK) status = open_output(settings, child, "err", &streams->err);
  if (status != COLL_OK) {
    close_child_ends(streams);
    close_parent_ends(streams);
  }
  return status;
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

static void set_environment(const collrun_spawn_t *spawn, int child) {
  const collrun_settings_t *settings = spawn->settings;
  set_number("RANK", settings->first_rank + child);
  set_number("WORLD_SIZE", settings->world_size);
  set_number("LOCAL_RANK", child);
  set_number("LOCAL_WORLD_SIZE", settings->ranks);
  setenv("COLL_SECRET_SOCKET", spawn->secret_socket, 1);
  setenv("MASTER_ADDR", spawn->address.text, 1);
  set_number("MASTER_PORT", spawn->address.port);
  setenv("COLL_TOPO_MAP", topo_map_words[settings->map], 1);
}

/* Runs in the child. Returns only on failure, with errno set. command: of an agent, or NULL. */
static void exec_child(const collrun_spawn_t *spawn, int child, char **command,
                       const streams_t *streams) {
  const collrun_settings_t *settings = spawn->settings;
  if (setpgid(0, 0) != 0) return;
  if (streams->in.child >= 0 && dup2(streams->in.child, STDIN_FILENO) < 0) return;
  if (streams->out.child >= 0 && dup2(streams->out.child, STDOUT_FILENO) < 0) return;
  if (streams->err.child >= 0 && dup2(streams->err.child, STDERR_FILENO) < 0) return;
  if (command == NULL) {
    set_environment(spawn, child);
    command = settings->program;
    if (spawn->machine != NULL) {
      int cores = topo_machine_facts(spawn->machine).cores;
      /* Binding is an optimization: in a sandbox that forbids it the job still runs. */
      (void)topo_machine_bind(spawn->machine, topo_share_of(cores, child, settings->ranks));
    }
  }
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &spawn->signal_mask, NULL);
  execvp(command[0], command);
}

/* Asks the kernel to kill this process when its parent dies; exits if the parent has died already.
 */
static void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(BASE_EXIT_FAILED);
}

static coll_status_t exec_failed(const char *program, int error, int *exit_code) {
  errno = error;
  *exit_code = error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
  if (error == ENOENT && strchr(program, '/') == NULL) {
    return base_fail(COLL_ERROR_INVALID, "%s: no such program in PATH", program);
  }
  return base_fail_errno(COLL_ERROR_INVALID, "cannot run %s", program);
}

/* Waits until the child has called exec successfully or has reported an error. */
static coll_status_t wait_for_exec(int report, const char *program, int *exit_code) {
  int error;
  ssize_t got;
  do {
    got = read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof error ? exec_failed(program, error, exit_code) : COLL_OK;
}

static coll_status_t spawn_command(const collrun_spawn_t *spawn, int child, char **command,
                                   collrun_rank_t *started, int *exit_code) {
  streams_t streams = {{-1, -1}, {-1, -1}, {-1, -1}};
  COLL_TRY(open_streams(spawn->settings, child, &streams));
  coll_status_t status = COLL_OK;
  int report[2];
  pid_t pid = -1;
  if (pipe2(report, O_CLOEXEC) != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot start process %d", child);
    goto close_streams;
  }
  pid_t parent = getpid();
  pid = fork();
  if (pid == 0) {
    die_with_parent(parent);
    exec_child(spawn, child, command, &streams);
    int error = errno;
    ssize_t written = write(report[1], &error, sizeof error);
    _exit(written == (ssize_t)sizeof error ? EXIT_NOT_FOUND : BASE_EXIT_FAILED);
  }
  if (pid < 0) status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot start process %d", child);
  close(report[1]);
  if (status == COLL_OK) {
    const char *program = command != NULL ? command[0] : spawn->settings->program[0];
    status = wait_for_exec(report[0], program, exit_code);
    if (status != COLL_OK) waitpid(pid, NULL, 0);
  }
  close(report[0]);

close_streams:
  close_child_ends(&streams);
  if (status != COLL_OK) {
    close_parent_ends(&streams);
    return status;
  }
  *started = (collrun_rank_t){pid, streams.in.parent, streams.out.parent, streams.err.parent};
  return COLL_OK;
}

coll_status_t collrun_rank_spawn(const collrun_spawn_t *spawn, int child, collrun_rank_t *started,
                                 int *exit_code) {
  char **command = NULL;
  *exit_code = BASE_EXIT_FAILED;
  if (spawn->settings->hosts.count > 0) {
    COLL_TRY(collrun_agent_command(spawn->settings, child, &spawn->address, &command));
  }
  coll_status_t status = spawn_command(spawn, child, command, started, exit_code);
  collrun_agent_free(command);
  return status;
}
