/*
 * NCCL_ALGO: "ring,tree" for all collectives, or "allreduce:tree;broadcast:ring". The first
 * algorithm of a list that exists here is forced; lists of what is not to be used (^) are ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontends/nccl/environment.h"

static const struct {
  const char *name;
  coll_collective_t collective;
} functions[] = {{"allreduce", COLL_ALLREDUCE},
                 {"reduce", COLL_REDUCE},
                 {"reducescatter", COLL_REDUCE_SCATTER},
                 {"allgather", COLL_ALLGATHER},
                 {"broadcast", COLL_BROADCAST}};

/* Both are trees; a collective has one of them or both. */
static const struct {
  const char *name, *ours;
} algorithms[] = {{"ring", "ring"}, {"tree", "double_tree"}, {"tree", "binomial"}, {"pat", "pat"}};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool equals(const char *text, size_t length, const char *name) {
  return strlen(name) == length && strncasecmp(text, name, length) == 0;
}

static bool exists(coll_collective_t collective, const char *name) {
  const char *each;
  for (int i = 0; (each = coll_algo_name(collective, i)) != NULL; i++) {
    if (strcmp(each, name) == 0) return true;
  }
  return false;
}

/* The first of a list's algorithms that the collective has, or NULL. */
static const char *choose(coll_collective_t collective, const char *list, size_t length) {
  for (const char *item = list, *end = list + length; item < end;) {
    size_t bytes = strcspn(item, ",;");
    for (size_t i = 0; i < COUNT(algorithms); i++) {
      if (!equals(item, bytes, algorithms[i].name)) continue;
      if (exists(collective, algorithms[i].ours)) return algorithms[i].ours;
    }
    item += bytes + 1;
  }
  return NULL;
}

static void force(coll_comm_t comm, size_t function, const char *list, size_t length) {
  coll_collective_t collective = functions[function].collective;
  const char *name = list[0] != '^' ? choose(collective, list, length) : NULL;
  if (name == NULL) {
    nccl_log(NCCL_LOG_INFO, "NCCL_ALGO=%.*s is ignored for %s: the library chooses", (int)length,
             list, functions[function].name);
  } else if (coll_comm_algo_set(comm, collective, name) != COLL_OK) {
    nccl_log(NCCL_LOG_INFO, "NCCL_ALGO: %s", coll_last_error(comm));
  }
}

void nccl_environment_set_algorithms(coll_comm_t comm) {
  const char *value = nccl_variable("NCCL_ALGO");
  for (const char *part = value; part != NULL && *part != '\0';) {
    size_t length = strcspn(part, ";"), name = strcspn(part, ":");
    const char *list = name < length ? part + name + 1 : part;
    for (size_t i = 0; i < COUNT(functions); i++) {
      bool meant = name >= length || equals(part, name, functions[i].name);
      if (meant) force(comm, i, list, length - (size_t)(list - part));
    }
    part += length + (part[length] == ';');
  }
}
