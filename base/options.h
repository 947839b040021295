/*
 * Command-line options of all tools: one table per command defines the parser, the checks and the
 * --help page. Options are --name VALUE, --name=VALUE, -x VALUE and -xVALUE; flags take no value.
 * A name may follow one dash, as in mpirun's -np, and '_' in it is the same as '-'. Parsing stops
 * at the first word that is not an option, or after "--".
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

#define BASE_OPTION_VALUES_MAX 256

typedef enum base_option_kind {
  BASE_OPTION_FLAG,    /* bool *      set to true */
  BASE_OPTION_INTEGER, /* int64_t *   min..max */
  BASE_OPTION_BYTES,   /* uint64_t *  min..max, written 64K, 1M */
  BASE_OPTION_NUMBER,  /* double *    any finite number */
  BASE_OPTION_WORD,    /* int *       index into words[] */
  BASE_OPTION_TEXT,    /* const char ** */
  BASE_OPTION_SWITCH,  /* int64_t *   min..max; 1 if no number follows */
  BASE_OPTION_LIST,    /* base_option_list_t *: may be given several times */
  BASE_OPTION_PAIR     /* the same, with two values each time */
} base_option_kind_t;

/* The values of an option, in the order in which they were given. */
typedef struct base_option_list {
  const char *values[BASE_OPTION_VALUES_MAX];
  size_t count;
} base_option_list_t;

typedef struct base_option {
  char letter;      /* 'n', or 0 for none */
  const char *name; /* "ranks", or NULL for none */
  base_option_kind_t kind;
  void *value;              /* destination; its content before parsing is the default */
  const char *value_name;   /* "N" in the help; NULL for flags */
  const char *help;         /* one line, with the unit; print_default adds the default */
  int64_t min, max;         /* INTEGER and BYTES; both 0: any value that is not negative */
  const char *const *words; /* WORD, NULL-terminated */
} base_option_t;

typedef struct base_command {
  const char *name;     /* "collbench" or "gpt train" */
  const char *usage;    /* "COLLECTIVE [options]" */
  const char *summary;  /* one or two sentences: what the command does */
  const char *examples; /* lines "command\n    what it does"; shown first in the help */
  const base_option_t *options;
  size_t option_count;
  const base_option_t *others; /* names that other programs have: the help leaves them out */
  size_t other_count;
} base_command_t;

/* Parses argv[1..argc). *first is the index of the first word that is not an option (argc if there
 * is none). *helped is set if --help or -h was found: the page was printed to standard output, and
 * the caller should exit with status 0. COLL_ERROR_INVALID: the message names the word, the mistake
 * and an option that may have been meant. */
coll_status_t base_options_parse(const base_command_t *command, int argc, char **argv, int *first,
                                 bool *helped);

void base_options_help(const base_command_t *command, FILE *out);

#endif
