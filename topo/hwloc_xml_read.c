/*
 * A child process reads the XML by hwloc and sends the graph as JSON, or a message. Its exit code
 * tells which; any other end is a crash of hwloc.
 */
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "topo/hwloc_graph.h"
#include "topo/hwloc_xml_scan.h"
#include "topo/json.h"

#define EXIT_BASE 100    /* the child's exit code is this and its status; sanitizers have others */
#define READING_MAX_S 20 /* hwloc reads megabytes in a second */

static coll_status_t read_xml(hwloc_topology_t topology, const char *text, size_t bytes,
                              const char *file_name, topo_graph_t **graph) {
  topo_hwloc_keep_io(topology);
  if (hwloc_topology_set_xmlbuffer(topology, text, (int)bytes) != 0 ||
      hwloc_topology_load(topology) != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: hwloc cannot read it as a topology; give a file that lstopo has written "
                     "(lstopo FILE.xml)",
                     file_name);
  }
  return topo_graph_from_hwloc(topology, graph, NULL);
}

static coll_status_t convert(const char *text, size_t bytes, const char *file_name, FILE *out) {
  hwloc_topology_t topology;
  topo_graph_t *graph = NULL;
  if (hwloc_topology_init(&topology) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "hwloc cannot start");
  }
  coll_status_t status = read_xml(topology, text, bytes, file_name, &graph);
  hwloc_topology_destroy(topology);
  if (status != COLL_OK) return status;
  status = topo_graph_write(graph, out);
  topo_graph_free(graph);
  return status;
}

/* What the child does. Signals end it without a report. */
static _Noreturn void run_child(const char *text, size_t bytes, const char *file_name, int fd) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  sigset_t fatal;
  sigemptyset(&fatal);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    signal(signals[i], SIG_DFL);
    sigaddset(&fatal, signals[i]);
  }
  sigprocmask(SIG_UNBLOCK, &fatal, NULL);
  alarm(READING_MAX_S);
  FILE *out = fdopen(fd, "w");
  coll_status_t status = out == NULL ? base_fail_errno(COLL_ERROR_SYSTEM, "no stream to the parent")
                                     : convert(text, bytes, file_name, out);
  if (status != COLL_OK && out != NULL) fputs(base_last_error(), out);
  if (out != NULL && fclose(out) != 0) status = COLL_ERROR_SYSTEM;
  _exit(EXIT_BASE + (int)status);
}

/* Reads all that the child sends. *text has a null character at the end. */
static coll_status_t receive(int fd, char **text, size_t *bytes) {
  size_t capacity = 0;
  *text = NULL;
  *bytes = 0;
  for (;;) {
    COLL_TRY(base_grow((void **)text, &capacity, *bytes + 4096, 1, "a topology's text"));
    ssize_t got = read(fd, *text + *bytes, capacity - *bytes - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    *bytes += (size_t)got;
  }
  (*text)[*bytes] = '\0';
  return COLL_OK;
}

static coll_status_t judge(int end, const char *text, size_t bytes, const char *file_name,
                           topo_graph_t **graph) {
  int code = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
  if (code == EXIT_BASE + COLL_OK) return topo_graph_parse(text, bytes, file_name, graph);
  if (code > EXIT_BASE) return base_fail((coll_status_t)(code - EXIT_BASE), "%s", text);
  if (WIFSIGNALED(end)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: hwloc crashes when it reads this file (%s); give a file that lstopo has "
                     "written (lstopo FILE.xml)",
                     file_name, strsignal(WTERMSIG(end)));
  }
  return base_fail(COLL_ERROR_INTERNAL, "%s: the process that reads it ended with code %d",
                   file_name, code);
}

/* Waits for the child also if it is not understood. */
static coll_status_t await_child(pid_t child, int fd, const char *file_name, topo_graph_t **graph) {
  char *text;
  size_t bytes;
  int end;
  coll_status_t status = receive(fd, &text, &bytes);
  close(fd);
  while (waitpid(child, &end, 0) < 0) {
    if (errno != EINTR && status == COLL_OK) {
      status = base_fail_errno(COLL_ERROR_SYSTEM, "%s: its reader is lost", file_name);
    }
    if (errno != EINTR) break;
  }
  if (status == COLL_OK) status = judge(end, text, bytes, file_name, graph);
  free(text);
  return status;
}

static coll_status_t fork_reader(const char *text, size_t bytes, const char *file_name,
                                 topo_graph_t **graph) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "%s: no pipe to its reader", file_name);
  }
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(text, bytes, file_name, ends[1]);
  }
  close(ends[1]);
  if (child < 0) {
    coll_status_t status =
        base_fail_errno(COLL_ERROR_SYSTEM, "%s: no process to read it", file_name);
    close(ends[0]);
    return status;
  }
  return await_child(child, ends[0], file_name, graph);
}

/* Where SIGCHLD is ignored, as a parent may have left it, Linux keeps no exit code of a child. */
static coll_status_t read_in_child(const char *text, size_t bytes, const char *file_name,
                                   topo_graph_t **graph) {
  struct sigaction keep_codes = {.sa_handler = SIG_DFL}, before;
  sigaction(SIGCHLD, &keep_codes, &before);
  coll_status_t status = fork_reader(text, bytes, file_name, graph);
  sigaction(SIGCHLD, &before, NULL);
  return status;
}

/* hwloc reads files of its own and of earlier major versions. */
static coll_status_t check_version(const char *text, size_t bytes, const char *file_name) {
  int major, minor, line, own = (int)(hwloc_get_api_version() >> 16);
  if (!topo_hwloc_xml_version(text, bytes, &major, &minor, &line) || major <= own) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "%s:%d: <topology version=\"%d.%d\"> is newer than what the hwloc %d that is used "
      "here can read; write it for hwloc %d: lstopo --of v%dxml FILE.xml",
      file_name, line, major, minor, own, own, own);
}

coll_status_t topo_graph_from_hwloc_xml(const char *text, size_t bytes, const char *file_name,
                                        FILE *warnings, topo_graph_t **graph) {
  char *copy; /* hwloc counts a null character at the end */
  *graph = NULL;
  if (bytes >= INT_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s: hwloc reads less than 2 GB; give a smaller file",
                     file_name);
  }
  COLL_TRY(check_version(text, bytes, file_name));
  if (!topo_hwloc_xml_is_whole(text, bytes)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: the file does not end with </topology>; give a whole file that lstopo "
                     "has written (lstopo FILE.xml)",
                     file_name);
  }
  COLL_TRY(base_alloc(bytes + 1, 1, "a topology's text", (void **)&copy));
  memcpy(copy, text, bytes);
  coll_status_t status = read_in_child(copy, bytes + 1, file_name, graph);
  free(copy);
  if (status == COLL_OK && warnings != NULL) topo_hwloc_xml_warn(text, bytes, file_name, warnings);
  return status;
}
