/* The commands of collplan and what they share: words of the command line, and plans by name. */
#ifndef COLLPLAN_COLLPLAN_H
#define COLLPLAN_COLLPLAN_H

#include "algo/algo.h"
#include "base/options.h"
#include "plan/plan.h"

#define COLLPLAN_WORDS_MAX 64
#define COLLPLAN_EXIT_REJECTED 1 /* a plan was not proved */
#define COLLPLAN_EXIT_USAGE 2

/* Each runs with argv[0] as its own name and returns the exit code. */
int collplan_list(int argc, char **argv);
int collplan_show(int argc, char **argv);
int collplan_verify(int argc, char **argv);
int collplan_stats(int argc, char **argv);

/* Prints the last error as "collplan: sentence" and returns COLLPLAN_EXIT_USAGE. */
int collplan_fail(void);

/* Options and other words in any order; words[] gets the others, in order. */
coll_status_t collplan_parse(const base_command_t *command, int argc, char **argv,
                             const char *words[COLLPLAN_WORDS_MAX], size_t *word_count,
                             bool *helped);

/* Whether a word is the name of a collective; if not, it is taken for a file's. */
bool collplan_is_collective(const char *word, coll_collective_t *collective);

/* The plan in a file ("-": standard input). A word that is neither a file nor anything else is met
 * with the nearest collective. */
coll_status_t collplan_load(const char *file_name, plan_t **plan);

/* One algorithm by name; NULL: the collective's first. */
coll_status_t collplan_algo(coll_collective_t collective, const char *name, const algo_t **algo);

/* "8", "1-64", "2,4,8-16": the rank counts in it, each in 1..PLAN_RANKS_MAX, in the order given.
 * The caller frees *counts. */
coll_status_t collplan_parse_ranks(const char *text, int32_t **counts, size_t *count);

/* COLL_ERROR_INVALID unless root is a rank of `size`, and it is 0 or plans of the algorithm have a
 * root or an executor rank. algo NULL: those of any algorithm of the collective. */
coll_status_t collplan_check_root(coll_collective_t collective, const algo_t *algo, int64_t root,
                                  int32_t size);

#endif
