/* Three kinds of random schedules, and a bounded depth-first search that restarts the run for each
 * schedule. */
#include "schedule.h"

#include <stdlib.h>

#include "random.h"

#define ACTORS_MAX 64

/* ---- random --------------------------------------------------------------------------------- */

typedef struct order {
  int32_t actors[ACTORS_MAX], count;
} order_t;

/* The first actor that can move, from position `from` on, cyclically; or -1. */
static int32_t first_able(brute_t *brute, const order_t *order, int32_t from) {
  for (int32_t i = 0; i < order->count; i++) {
    int32_t actor = order->actors[(from + i) % order->count];
    if (brute_can_move(brute, actor)) return actor;
  }
  return -1;
}

/* Moves the actor at `from` to `to`. */
static void reorder(order_t *order, int32_t from, int32_t to) {
  int32_t actor = order->actors[from];
  int step = from < to ? 1 : -1;
  for (int32_t i = from; i != to; i += step) order->actors[i] = order->actors[i + step];
  order->actors[to] = actor;
}

/* Priorities in a random order; one rank may be last (slow) or first (fast) as a whole. */
static void shuffle(const brute_t *brute, order_t *order, uint64_t *state) {
  order->count = brute_actor_count(brute);
  for (int32_t i = 0; i < order->count; i++) order->actors[i] = i;
  for (int32_t i = order->count - 1; i > 0; i--) reorder(order, i, random_below(state, i + 1));
  int32_t favour = random_below(state, 3), chosen = random_below(state, order->count);
  int32_t rank = brute_actor_rank(brute, chosen);
  if (favour == 0) return;
  for (int32_t i = 0, left = order->count; left > 0; left--) {
    bool is_chosen = brute_actor_rank(brute, order->actors[i]) == rank;
    if (is_chosen == (favour == 1)) {
      reorder(order, i, order->count - 1);
    } else {
      i++;
    }
  }
}

/* Schedules by priorities that change rarely, so that some actors run far ahead of others
 * (Burckhardt et al. 2010). */
static int32_t next_by_priority(brute_t *brute, order_t *order, uint64_t *state) {
  if (random_below(state, 32) == 0) {
    reorder(order, random_below(state, order->count), random_below(state, order->count));
  }
  return first_able(brute, order, 0);
}

/* A random actor for each move or, with `lasting`, for several moves. */
static int32_t next_at_random(brute_t *brute, const order_t *order, bool lasting, int32_t actor,
                              uint64_t *state) {
  bool stays = lasting && actor >= 0 && random_below(state, 8) > 0 && brute_can_move(brute, actor);
  return stays ? actor : first_able(brute, order, random_below(state, order->count));
}

brute_fault_t schedule_run(brute_t *brute, uint64_t seed) {
  order_t order;
  uint64_t state = random_mix(seed);
  int32_t kind = random_below(&state, 4), actor = -1;
  brute_reset(brute, seed);
  shuffle(brute, &order, &state);
  for (;;) {
    actor = kind < 2 ? next_at_random(brute, &order, kind == 1, actor, &state)
                     : next_by_priority(brute, &order, &state);
    if (actor < 0) return brute_judge(brute);
    brute_move(brute, actor);
    if (brute_has_failed(brute)) return brute_judge(brute);
  }
}

/* ---- exhaustive ----------------------------------------------------------------------------- */

/* A point of a schedule at which several actors could move. */
typedef struct choice {
  int32_t taken, options;
} choice_t;

typedef struct search {
  choice_t *choices;
  size_t count, capacity;
  int preemptions;
} search_t;

static void add_choice(search_t *search, int32_t options) {
  if (search->count == search->capacity) {
    search->capacity = search->capacity * 2 + 64;
    search->choices = realloc(search->choices, search->capacity * sizeof *search->choices);
    if (search->choices == NULL) abort();
  }
  search->choices[search->count++] = (choice_t){.options = options};
}

/* The actor that moves next: by the choices so far, then the first that can move; -1 if none can.
 * The current actor is the first option; choosing another uses up one preemption. */
static int32_t choose(brute_t *brute, search_t *search, size_t *depth, int32_t present,
                      int *preemptions) {
  int32_t able[ACTORS_MAX], count = 0, actors = brute_actor_count(brute);
  bool can_stay = present >= 0 && brute_can_move(brute, present);
  if (can_stay) able[count++] = present;
  for (int32_t i = 0; i < actors && (!can_stay || *preemptions > 0); i++) {
    if (i != present && brute_can_move(brute, i)) able[count++] = i;
  }
  if (count <= 1) return count == 0 ? -1 : able[0];
  if (*depth == search->count) add_choice(search, count);
  int32_t taken = search->choices[(*depth)++].taken;
  if (can_stay && taken > 0) --*preemptions;
  return able[taken];
}

static brute_fault_t follow(brute_t *brute, search_t *search) {
  size_t depth = 0;
  int preemptions = search->preemptions;
  int32_t actor = -1;
  brute_reset(brute, 0);
  while ((actor = choose(brute, search, &depth, actor, &preemptions)) >= 0) {
    brute_move(brute, actor);
    if (brute_has_failed(brute)) break;
  }
  return brute_judge(brute);
}

/* Advances the last choice that has another option; false when none has. */
static bool next_schedule(search_t *search) {
  while (search->count > 0) {
    choice_t *last = &search->choices[search->count - 1];
    if (++last->taken < last->options) return true;
    search->count--;
  }
  return false;
}

brute_fault_t schedule_explore(brute_t *brute, int preemptions, size_t runs_max, size_t *runs) {
  search_t search = {.preemptions = preemptions};
  brute_fault_t fault = BRUTE_RIGHT;
  *runs = 0;
  do {
    fault = follow(brute, &search);
    ++*runs;
  } while (fault == BRUTE_RIGHT && *runs < runs_max && next_schedule(&search));
  free(search.choices);
  return fault;
}
