/* Standard output is checked at the end: stdio remembers that a write has failed, and the last
 * flush and the close show the rest. A long run checks it earlier with base_tool_flush. */
#include "base/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define EXIT_CLOSED_PIPE (128 + SIGPIPE) /* what a shell shows for a program that it ends */

static const char *tool_name;
static bool is_of_input; /* the last failure */
static int lost_code;    /* the exit code once output is lost; 0 before */

/* Otherwise the first file or socket that the program opens would get what it prints. The file is
 * open for the other direction only, so that reading and writing fail as with a closed one. */
static void fill_closed_descriptors(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool base_tool_pipe_is_closed(int fd) {
  struct pollfd entry = {.fd = fd};
  return poll(&entry, 1, 0) > 0 && (entry.revents & POLLERR) != 0;
}

/* The error of a former write is lost: writing nothing shows most of them again. */
static void report_lost_output(int error) {
  if (lost_code != BASE_EXIT_DONE) return;
  lost_code = BASE_EXIT_FAILED;
  if (error == 0 && write(STDOUT_FILENO, "", 0) < 0) error = errno;
  if (error == EPIPE || base_tool_pipe_is_closed(STDOUT_FILENO)) {
    lost_code = EXIT_CLOSED_PIPE;
  } else {
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", tool_name, error != 0 ? ": " : "",
            error != 0 ? strerror(error) : "");
  }
}

bool base_tool_flush(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  report_lost_output(errno);
  return false;
}

int base_tool_main(const char *tool, base_tool_run_t *run, int argc, char **argv) {
  tool_name = tool;
  fill_closed_descriptors();
  int code = run(argc, argv);
  if (base_tool_flush() && fclose(stdout) != 0) report_lost_output(errno);
  return code == BASE_EXIT_DONE ? lost_code : code;
}

int base_tool_fail(const char *tool, coll_status_t status) {
  bool usage = status == COLL_ERROR_INVALID && !is_of_input;
  if (base_tool_flush() && base_last_error()[0] != '\0') {
    fprintf(stderr, "%s: %s\n", tool, base_last_error());
  }
  return usage ? BASE_EXIT_USAGE : BASE_EXIT_FAILED;
}

coll_status_t base_tool_input(coll_status_t status) {
  if (status != COLL_OK) is_of_input = true;
  return status;
}

int base_tool_dispatch(const char *tool, const char *usage, const base_tool_command_t commands[],
                       size_t count, int argc, char **argv) {
  if (argc < 2) {
    fputs(usage, stderr);
    return BASE_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    fputs(usage, stdout);
    return BASE_EXIT_DONE;
  }
  const char *names[BASE_TOOL_COMMANDS_MAX];
  for (size_t i = 0; i < count; i++) {
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    names[i] = commands[i].name;
  }
  const char *suggestion = base_text_suggestion(argv[1], names, count);
  if (suggestion != NULL) {
    fprintf(stderr, "%s: no command '%s'; did you mean '%s'? (%s --help)\n", tool, argv[1],
            suggestion, tool);
  } else {
    fprintf(stderr, "%s: no command '%s'; see %s --help\n", tool, argv[1], tool);
  }
  return BASE_EXIT_USAGE;
}

void base_tool_print_knobs(coll_status_t (*get)(int index, coll_knob_t *knob)) {
  coll_knob_t knob = COLL_KNOB_INIT;
  for (int i = 0; get(i, &knob) == COLL_OK; i++) {
    printf("%s=%s (default '%s'): %s\n", knob.name, knob.value, knob.default_value, knob.help);
  }
}
