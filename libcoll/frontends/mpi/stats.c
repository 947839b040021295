/*
 * Counts of calls, and the time that they took.
 */
#include "frontends/mpi/stats.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>

typedef struct count {
  long calls[LAYER_WAY_COUNT];
  double saved_us;
} count_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static count_t counts[2][LAYER_VERB_COUNT][LAYER_CLASS_COUNT]; /* [1]: non-blocking ones */

static void add(count_t *count, layer_way_t way, double saved_us) {
  pthread_mutex_lock(&lock);
  count->calls[way]++;
  count->saved_us += saved_us;
  pthread_mutex_unlock(&lock);
}

void layer_stats_add(layer_verb_t verb, int class, layer_way_t way, double saved_us) {
  add(&counts[0][verb][class], way, saved_us);
}

void layer_stats_add_nonblocking(layer_verb_t verb, int class, layer_way_t way) {
  add(&counts[1][verb][class], way, 0);
}

static void print_row(const char *name, const char *bytes, const count_t *count) {
  fprintf(stderr, "libcoll: %-24s %12s %10ld %10ld %12.3f\n", name, bytes,
          count->calls[LAYER_SERVED], count->calls[LAYER_PASSED], count->saved_us * 1e-3);
}

/* "MPI_Reduce", or "MPI_Ireduce". */
static void print_verb(int verb, int is_nonblocking, count_t *total) {
  char bytes[32], name[64];
  snprintf(name, sizeof name, "MPI_%s%s", is_nonblocking ? "I" : "", layer_verbs[verb].name);
  if (is_nonblocking) name[5] = (char)tolower(name[5]);
  for (int class = 0; class < LAYER_CLASS_COUNT; class ++) {
    const count_t *count = &counts[is_nonblocking][verb][class];
    if (count->calls[LAYER_SERVED] == 0 && count->calls[LAYER_PASSED] == 0) continue;
    snprintf(bytes, sizeof bytes, "%zu", layer_class_bytes(class));
    print_row(name, layer_verbs[verb].is_irregular ? "any" : bytes, count);
    for (int way = 0; way < LAYER_WAY_COUNT; way++) total->calls[way] += count->calls[way];
    total->saved_us += count->saved_us;
  }
}

void layer_stats_print(void) {
  count_t total = {0};
  if (!layer.has_stats || layer.world_rank != 0) return;
  fprintf(stderr, "libcoll: calls of rank 0 with " LAYER_NAME
                  "; what was saved is estimated from trials\n");
  fprintf(stderr, "libcoll: %-24s %12s %10s %10s %12s\n", "verb", "bytes up to", "served", "passed",
          "saved (ms)");
  for (int verb = 0; verb < LAYER_VERB_COUNT; verb++) {
    for (int form = 0; form < 2; form++) print_verb(verb, form, &total);
  }
  print_row("all", "", &total);
}
