/*
 * One row per collective: what is best for a call that fits a message or two, and what is best
 * beyond, from the fastest that needs most to the one that runs anywhere.
 */
#include "tune/tune.h"

#define SMALL_BYTES ((size_t)8 << 10)
#define CHOICES_MAX 5

typedef struct preference {
  const char *small[CHOICES_MAX];
  const char *large[CHOICES_MAX];
} preference_t;

static const preference_t preferences[COLL_COLLECTIVE_COUNT] = {
    [COLL_ALLREDUCE] = {{"butterfly", "ring"}, {"twophase_push", "staged", "ring"}},
    [COLL_REDUCE] = {{"binomial", "chain"}, {"mapped", "staged", "binomial", "chain"}},
    [COLL_REDUCE_SCATTER] = {{"circulant", "ring"}, {"mapped", "staged", "ring"}},
    [COLL_ALLGATHER] = {{"circulant", "ring"}, {"mapped", "staged", "ring"}},
    [COLL_BROADCAST] = {{"binomial", "chain"}, {"mapped", "staged", "chain"}},
    [COLL_GATHER] = {{"linear"}, {"mapped", "staged", "linear"}},
    [COLL_SCATTER] = {{"linear"}, {"mapped", "staged", "linear"}},
    [COLL_ALLTOALL] = {{"pairwise"}, {"mapped", "staged", "pairwise"}},
    [COLL_ALLTOALLV] = {{"pairwise"}, {"pairwise"}},
    [COLL_BARRIER] = {{"dissemination"}, {"dissemination"}},
    [COLL_SENDRECV] = {{"direct"}, {"direct"}},
};

static const char *const *list_of(const tune_query_t *query) {
  const preference_t *row = &preferences[query->collective];
  return query->bytes <= SMALL_BYTES ? row->small : row->large;
}

static const algo_t *usable(const tune_query_t *query, const char *name) {
  const algo_t *algo;
  if (name == NULL || algo_find(query->collective, name, &algo) != COLL_OK) return NULL;
  return algo;
}

const algo_t *tune_candidate(const tune_query_t *query, int index) {
  if (query->forced != NULL && index == 0) return usable(query, query->forced);
  int place = index - (query->forced != NULL);
  if (place < CHOICES_MAX && list_of(query)[place] != NULL) {
    return usable(query, list_of(query)[place]);
  }
  return NULL;
}
