/* Lists of forced algorithms: parsed, compared, checked and applied. */
#include "comm/algorithms.h"

#include <string.h>

#include "algo/algo.h"
#include "base/digest.h"
#include "base/names.h"
#include "base/text.h"
#include "comm/plan_cache.h"

enum { ELEMENT_BYTES = 128 }; /* longer than any collective and algorithm */

static coll_status_t find_collective(const char *word, const char *source,
                                     coll_collective_t *collective) {
  const char *names[COLL_COLLECTIVE_COUNT];
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    names[i] = base_collective_name((coll_collective_t)i);
    if (strcmp(names[i], word) != 0) continue;
    *collective = (coll_collective_t)i;
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "COLL_ALGO%s: there is no collective '%s'; did you mean '%s'?", source, word,
                   base_text_nearest(word, names, COLL_COLLECTIVE_COUNT));
}

/* Reads one element of the list. */
static coll_status_t read_one(const char *at, size_t length, const char *source,
                              const char *names[COLL_COLLECTIVE_COUNT]) {
  char element[ELEMENT_BYTES] = "";
  coll_collective_t collective = COLL_ALLREDUCE;
  const algo_t *algo;
  if (length < sizeof element) memcpy(element, at, length);
  char *name = strchr(element, '=');
  if (name == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_ALGO%s has \"%.*s\": give a list such as allreduce=ring,broadcast=chain",
                     source, (int)length, at);
  }
  *name++ = '\0';
  COLL_TRY(find_collective(element, source, &collective));
  if (algo_find(collective, name, &algo) != COLL_OK) {
    return base_fail(COLL_ERROR_INVALID, "COLL_ALGO%s: %s", source, base_last_error());
  }
  names[collective] = algo->name;
  return COLL_OK;
}

coll_status_t comm_algorithms_read(const char *text, const char *source,
                                   const char *names[COLL_COLLECTIVE_COUNT]) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) names[i] = NULL;
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, ",");
    COLL_TRY(read_one(at, length, source, names));
    at += length;
    at += *at == ',';
  }
  return COLL_OK;
}

uint64_t comm_algorithms_digest(const char *const names[COLL_COLLECTIVE_COUNT]) {
  uint64_t digest = BASE_DIGEST_START;
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    for (const char *at = names[i]; at != NULL && *at != '\0'; at++) {
      digest = base_digest_fold(digest, (uint64_t)*at);
    }
    digest = base_digest_fold(digest, UINT64_MAX);
  }
  return digest;
}

coll_status_t comm_algorithms_check(coll_collective_t collective, const char *name, int size,
                                    bool reproducible) {
  const algo_t *algo;
  if (!reproducible || !base_collective_reduces(collective)) return COLL_OK;
  COLL_TRY(algo_find(collective, name, &algo));
  if (algo_order(algo, size) >= PLAN_ORDER_CANONICAL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s by '%s' reduces in an order of its own among %d ranks, and the communicator "
                   "is reproducible: make it without COLL_REPRODUCIBLE, or force an algorithm that "
                   "`collplan list` shows to be canonical or exact",
                   base_collective_name(collective), name, size);
}

coll_status_t comm_algorithms_check_all(const char *const names[COLL_COLLECTIVE_COUNT], int size,
                                        bool reproducible) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    if (names[i] == NULL) continue;
    COLL_TRY(comm_algorithms_check((coll_collective_t)i, names[i], size, reproducible));
  }
  return COLL_OK;
}

void comm_algorithms_apply(struct coll_comm *comm) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    coll_collective_t collective = (coll_collective_t)i;
    const char *name = comm->inherited.algorithms[i];
    if (name != NULL) comm_force(comm, collective, name);
  }
}
