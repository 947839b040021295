/* The commands of collplan and their shared functions: command-line parsing, and plans by name. */
#ifndef COLLPLAN_COLLPLAN_H
#define COLLPLAN_COLLPLAN_H

#include "algo/algo.h"
#include "base/options.h"
#include "base/tool.h"
#include "plan/plan.h"

#define COLLPLAN_WORDS_MAX 64
#define COLLPLAN_SOURCE "collective or plan file"

/* Each runs with argv[0] as its own name and returns the exit code. */
int collplan_list(int argc, char **argv);
int collplan_show(int argc, char **argv);
int collplan_verify(int argc, char **argv);
int collplan_stats(int argc, char **argv);
int collplan_table(int argc, char **argv);
int collplan_draw(int argc, char **argv);
int collplan_import(int argc, char **argv);
int collplan_export(int argc, char **argv);

/* Parses options and positional arguments in any order; words[] receives the positional ones. False
 * if the command ends with *code: it printed its help, or the command line is wrong. */
bool collplan_begin(const base_command_t *command, int argc, char **argv,
                    const char *words[COLLPLAN_WORDS_MAX], size_t *word_count, int *code);

/* The same where exactly one positional argument is given, which is a `what`. */
bool collplan_begin_one(const base_command_t *command, int argc, char **argv, const char *what,
                        const char **word, int *code);

/* Prints the error of `status` and returns the exit code. */
int collplan_end(coll_status_t status);

/* Whether a word is the name of a collective; if not, it is a file name. */
bool collplan_is_collective(const char *word, coll_collective_t *collective);

/* Loads the plan in a file ("-": standard input). If a word is neither a collective nor a file, the
 * error suggests the most similar collective. */
coll_status_t collplan_load(const char *file_name, plan_t **plan);

/* Finds an algorithm by name; NULL: the collective's first. */
coll_status_t collplan_algo(coll_collective_t collective, const char *name, const algo_t **algo);

/* A plan that the command line asks for. */
typedef struct collplan_request {
  const char *word; /* a collective or a file; the rest is for a collective */
  const char *algo; /* NULL: the first */
  topo_layout_t *layout;
  int64_t ranks, root;
  bool in_place;
} collplan_request_t;

coll_status_t collplan_make(const collplan_request_t *request, plan_t **plan);

/* Parses rank counts, such as "8", "1-64", "2,4,8-16", each in 1..PLAN_RANKS_MAX, in the order
 * given. The caller frees *counts. */
coll_status_t collplan_parse_ranks(const char *text, int32_t **counts, size_t *count);

/* The help of --layout, and the layout of `size` ranks that its value describes; NULL for no value.
 * Owned by the caller: topo_layout_free. */
#define COLLPLAN_LAYOUT_HELP \
  "where the ranks are: hosts:4x8, hosts:3+5, hosts:2x8/numa:2, grid:4x4, mesh:3x5"
coll_status_t collplan_layout(const char *text, int32_t size, topo_layout_t **layout);

/* COLL_ERROR_INVALID unless root is a rank of `size` and is 0 or plans of the algorithm have a root
 * or an executor rank. algo NULL: any algorithm of the collective. */
coll_status_t collplan_check_root(coll_collective_t collective, const algo_t *algo, int64_t root,
                                  int32_t size);

#endif
