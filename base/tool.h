/*
 * What all programs have in common, except for what they do: the exit codes, what happens when
 * standard output cannot be written, and the words by which the commands of a tool are called.
 */
#ifndef BASE_TOOL_H
#define BASE_TOOL_H

#include <coll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Exit codes of all tools (docs/tools.md). collrun has those of the ranks besides. */
typedef enum base_exit {
  BASE_EXIT_DONE = 0,
  BASE_EXIT_FAILED = 1, /* an input was refused, a result is wrong, or the system failed */
  BASE_EXIT_USAGE = 2   /* the command line is wrong: nothing was done */
} base_exit_t;

#define BASE_TOOL_COMMANDS_MAX 16

typedef int base_tool_run_t(int argc, char **argv);

typedef struct base_tool_command {
  const char *name;
  base_tool_run_t *run; /* argv[0] is its own name */
} base_tool_command_t;

/* The main function of every program: runs `run`, and returns its exit code. If something of what
 * was printed to standard output is lost, prints a sentence that begins with `tool` to standard
 * error, and returns BASE_EXIT_FAILED instead of 0. A closed pipe needs no sentence: its reader
 * wants no more; where SIGPIPE is ignored, the code is the one that a shell shows for it. */
int base_tool_main(const char *tool, base_tool_run_t *run, int argc, char **argv);

/* Flushes standard output. False if something is lost; the first time prints the sentence. */
bool base_tool_flush(void);

/* Whether the descriptor is a pipe or a socket that nobody reads any more. */
bool base_tool_pipe_is_closed(int fd);

/* Prints the last error, unless it is "", as "tool: sentence" and returns its exit code:
 * BASE_EXIT_USAGE for COLL_ERROR_INVALID, unless base_tool_input has marked it; BASE_EXIT_FAILED
 * for others. Prints nothing if standard output has failed, which base_tool_flush says. */
int base_tool_fail(const char *tool, coll_status_t status);

/* Marks a failure as that of an input, not of the command line. Returns `status`. */
coll_status_t base_tool_input(coll_status_t status);

/* Runs the one of at most BASE_TOOL_COMMANDS_MAX commands that argv[1] names, with the arguments
 * from there on. Prints `usage` for --help and without a word; for an unknown word the nearest
 * command. */
int base_tool_dispatch(const char *tool, const char *usage, const base_tool_command_t commands[],
                       size_t count, int argc, char **argv);

/* Prints a line for each of the COLL_* environment variables. get: coll_knob_get, of which this
 * room has the declaration alone. */
void base_tool_print_knobs(coll_status_t (*get)(int index, coll_knob_t *knob));

#endif
