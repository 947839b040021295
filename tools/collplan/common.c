/* Command-line parsing, and plans from files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/text.h"
#include "plan/text.h"
#include "tools/collplan/collplan.h"

static coll_status_t parse(const base_command_t *command, int argc, char **argv,
                           const char *words[COLLPLAN_WORDS_MAX], size_t *word_count,
                           bool *helped) {
  *word_count = 0;
  int at = 0;
  for (;;) {
    int first = 0;
    COLL_TRY(base_options_parse(command, argc - at, argv + at, &first, helped));
    at += first;
    if (*helped || at >= argc) return COLL_OK;
    if (*word_count == COLLPLAN_WORDS_MAX) {
      return base_fail(COLL_ERROR_INVALID, "%s: more than %d words", command->name,
                       COLLPLAN_WORDS_MAX);
    }
    words[(*word_count)++] = argv[at];
  }
}

int collplan_end(coll_status_t status) {
  return status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail("collplan", status);
}

bool collplan_begin(const base_command_t *command, int argc, char **argv,
                    const char *words[COLLPLAN_WORDS_MAX], size_t *word_count, int *code) {
  bool helped = false;
  coll_status_t status = parse(command, argc, argv, words, word_count, &helped);
  bool goes_on = status == COLL_OK && !helped;
  if (!goes_on) *code = collplan_end(status);
  return goes_on;
}

bool collplan_begin_one(const base_command_t *command, int argc, char **argv, const char *what,
                        const char **word, int *code) {
  const char *words[COLLPLAN_WORDS_MAX], *name = strrchr(command->name, ' ') + 1;
  size_t count;
  if (!collplan_begin(command, argc, argv, words, &count, code)) return false;
  if (count != 1) {
    *code = collplan_end(
        base_fail(COLL_ERROR_INVALID, "%s: name one %s (%s --help)", name, what, command->name));
    return false;
  }
  *word = words[0];
  return true;
}

bool collplan_is_collective(const char *word, coll_collective_t *collective) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    if (strcmp(base_collective_name((coll_collective_t)i), word) == 0) {
      *collective = (coll_collective_t)i;
      return true;
    }
  }
  return false;
}

static coll_status_t cannot_open(const char *file_name) {
  int error = errno;
  coll_collective_t collective;
  bool looks_like_file = strpbrk(file_name, "./") != NULL;
  if (error == ENOENT && !looks_like_file) return base_collective_find(file_name, &collective);
  errno = error;
  return base_tool_input(base_fail_errno(COLL_ERROR_SYSTEM, "cannot open %s", file_name));
}

coll_status_t collplan_load(const char *file_name, plan_t **plan) {
  if (strcmp(file_name, "-") == 0) {
    return base_tool_input(plan_text_read(stdin, "standard input", plan));
  }
  FILE *in = fopen(file_name, "r");
  if (in == NULL) return cannot_open(file_name);
  coll_status_t status = base_tool_input(plan_text_read(in, file_name, plan));
  fclose(in);
  return status;
}

coll_status_t collplan_algo(coll_collective_t collective, const char *name, const algo_t **algo) {
  if (name != NULL) return algo_find(collective, name, algo);
  const algo_t *first = algo_at(collective, 0);
  if (first == NULL) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "%s has no algorithm",
                     base_collective_name(collective));
  }
  *algo = first;
  return COLL_OK;
}

/* "8" or "1-64", `length` characters of text. */
static bool parse_range(const char *text, size_t length, int64_t *from, int64_t *to) {
  char word[32];
  if (length == 0 || length >= sizeof word) return false;
  memcpy(word, text, length);
  word[length] = '\0';
  char *dash = strchr(word, '-');
  if (dash != NULL) *dash = '\0';
  if (!base_text_integer(word, 1, PLAN_RANKS_MAX, from)) return false;
  *to = *from;
  return dash == NULL || base_text_integer(dash + 1, *from, PLAN_RANKS_MAX, to);
}

coll_status_t collplan_parse_ranks(const char *text, int32_t **counts, size_t *count) {
  int32_t *made = NULL;
  size_t found = 0, capacity = 0;
  coll_status_t status = COLL_OK;
  for (const char *at = text; status == COLL_OK;) {
    size_t length = strcspn(at, ",");
    int64_t from = 0, to = 0;
    if (!parse_range(at, length, &from, &to)) {
      status = base_fail(COLL_ERROR_INVALID,
                         "-n %s: give rank counts from 1 to %d, such as 8, 1-64 or 2,4,8-16", text,
                         PLAN_RANKS_MAX);
      break;
    }
    size_t more = (size_t)(to - from + 1);
    status = base_grow((void **)&made, &capacity, found + more, sizeof *made, "rank counts");
    for (int64_t size = from; status == COLL_OK && size <= to; size++) {
      made[found++] = (int32_t)size;
    }
    if (at[length] == '\0') break;
    at += length + 1;
  }
  if (status != COLL_OK) {
    free(made);
    return status;
  }
  *counts = made;
  *count = found;
  return COLL_OK;
}

coll_status_t collplan_layout(const char *text, int32_t size, topo_layout_t **layout) {
  *layout = NULL;
  return text == NULL ? COLL_OK : topo_layout_parse(text, size, layout);
}

static bool some_has_root(coll_collective_t collective) {
  const algo_t *algo;
  for (int i = 0; (algo = algo_at(collective, i)) != NULL; i++) {
    if (algo_has_root(algo)) return true;
  }
  return false;
}

coll_status_t collplan_check_root(coll_collective_t collective, const algo_t *algo, int64_t root,
                                  int32_t size) {
  bool has = algo != NULL ? algo_has_root(algo) : some_has_root(collective);
  if (root > 0 && !has) {
    return base_fail(COLL_ERROR_INVALID, "--root %d: %s%s%s has no root or executor", (int)root,
                     base_collective_name(collective), algo != NULL ? "/" : "",
                     algo != NULL ? algo->name : "");
  }
  if (root >= size) {
    return base_fail(COLL_ERROR_INVALID, "--root %d: with %d rank%s the root is at most %d",
                     (int)root, size, size == 1 ? "" : "s", size - 1);
  }
  return COLL_OK;
}

coll_status_t collplan_make(const collplan_request_t *request, plan_t **plan) {
  coll_collective_t collective;
  const algo_t *algo;
  if (!collplan_is_collective(request->word, &collective)) {
    return collplan_load(request->word, plan);
  }
  COLL_TRY(collplan_algo(collective, request->algo, &algo));
  COLL_TRY(collplan_check_root(collective, algo, request->root, (int32_t)request->ranks));
  plan_shape_t shape = {.collective = collective,
                        .size = (int32_t)request->ranks,
                        .root = (int32_t)request->root,
                        .layout = request->layout};
  return algo_build(algo, &shape, ALGO_ALL_RANKS, request->in_place, plan);
}
