/*
 * Every schedule that differs from a valid one in one edit. Dropped, doubled and changed actions
 * leave a stage without the actions that it needs: the checker rejects all of them. Exchanged and
 * moved actions are valid exactly if a second decision (oracle.h) finds all dependencies and limits
 * kept, such as two passes of different micro-batches that nothing orders: there the checker must
 * agree with it, both ways.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sample.h"
#include "libtrain/schedule/check.h"
#include "oracle.h"

typedef struct tally {
  int rejected, valid;
} tally_t;

static bool checker_accepts(const train_schedule_t *schedule) {
  train_schedule_report_t report;
  if (train_schedule_check(schedule, &report) != COLL_OK) {
    cr_assert(base_last_error()[0] != '\0');
    return false;
  }
  train_schedule_report_free(&report);
  return true;
}

static const char *describe(const train_schedule_t *schedule, const char *edit, size_t at) {
  static char text[256];
  char action[TRAIN_ACTION_TEXT_BYTES];
  const train_schedule_shape_t *shape = &schedule->shape;
  snprintf(text, sizeof text, "%s p %d m %d steps %d v %d slices %d: %s %zu (%s)",
           train_schedule_names[shape->kind], shape->stages, shape->micro_batches, shape->steps,
           shape->chunks, shape->slices, edit, at,
           train_action_text(shape, &schedule->actions[at], action));
  return text;
}

/* ---- edits that change what a stage does ---- */

/* Copies with one action of `stage` removed (`by` -1) or an empty place before `at` (`by` 1). */
static train_schedule_t *resize(const train_schedule_t *original, size_t at, int stage, int by) {
  train_schedule_t *mutant;
  size_t count = original->first[original->shape.stages];
  cr_assert_eq(train_schedule_copy(original, &mutant), COLL_OK);
  mutant->actions = realloc(mutant->actions, (count + 1) * sizeof mutant->actions[0]);
  size_t from = by < 0 ? at + 1 : at, to = by < 0 ? at : at + 1;
  memmove(&mutant->actions[to], &mutant->actions[from], (count - from) * sizeof mutant->actions[0]);
  for (int i = stage + 1; i <= original->shape.stages; i++) {
    mutant->first[i] = by < 0 ? mutant->first[i] - 1 : mutant->first[i] + 1;
  }
  return mutant;
}

static void reject(train_schedule_t *mutant, const train_schedule_t *original, const char *edit,
                   size_t at, tally_t *tally) {
  cr_assert_not(checker_accepts(mutant), "accepted: %s", describe(original, edit, at));
  tally->rejected++;
  train_schedule_destroy(mutant);
}

static void drop_and_double(const train_schedule_t *original, tally_t *tally) {
  for (int stage = 0; stage < original->shape.stages; stage++) {
    for (size_t at = original->first[stage]; at < original->first[stage + 1]; at++) {
      reject(resize(original, at, stage, -1), original, "drop", at, tally);
      for (size_t to = original->first[stage]; to <= original->first[stage + 1]; to++) {
        train_schedule_t *mutant = resize(original, to, stage, 1);
        mutant->actions[to] = original->actions[at];
        reject(mutant, original, "double", at, tally);
      }
    }
  }
}

static void change_to(const train_schedule_t *original, size_t at, train_action_t action,
                      tally_t *tally) {
  train_schedule_t *mutant;
  if (memcmp(&action, &original->actions[at], sizeof action) == 0) return;
  cr_assert_eq(train_schedule_copy(original, &mutant), COLL_OK);
  mutant->actions[at] = action;
  reject(mutant, original, "change", at, tally);
}

/* Every other value of each member, also values just outside their ranges. */
static void change_members(const train_schedule_t *original, tally_t *tally) {
  const train_schedule_shape_t *shape = &original->shape;
  for (size_t at = 0; at < original->first[shape->stages]; at++) {
    train_action_t action = original->actions[at];
    for (int kind = 0; kind <= TRAIN_ACTION_KIND_COUNT; kind++) {
      action.kind = (train_action_kind_t)kind;
      change_to(original, at, action, tally);
    }
    action = original->actions[at];
    for (int i = -1; i <= train_schedule_total(shape); i++) {
      action.micro_batch = i;
      change_to(original, at, action, tally);
    }
    action = original->actions[at];
    for (int chunk = -1; chunk <= shape->chunks; chunk++) {
      action.chunk = chunk;
      change_to(original, at, action, tally);
    }
    action = original->actions[at];
    for (int slice = -1; slice <= shape->slices; slice++) {
      action.slice = slice;
      change_to(original, at, action, tally);
    }
    action = original->actions[at];
    for (int version = -1; version <= shape->steps + 1; version++) {
      action.version = version;
      change_to(original, at, action, tally);
    }
  }
}

/* ---- edits that change the order ---- */

static void judge(train_schedule_t *mutant, const train_schedule_t *original, const char *edit,
                  size_t at, tally_t *tally) {
  bool valid = oracle_accepts(mutant, original);
  cr_assert_eq(checker_accepts(mutant), valid, "%s, valid %d: %s", describe(original, edit, at),
               valid, base_last_error());
  tally->valid += valid;
  tally->rejected += !valid;
  train_schedule_destroy(mutant);
}

/* All, but with a sanitizer. */
static bool takes_edit(unsigned number) {
  return HARNESS_BUILD == HARNESS_PLAIN || harness_takes(HARNESS_VALUES, number);
}

static void reorder(const train_schedule_t *original, tally_t *tally) {
  unsigned number = 0;
  for (int stage = 0; stage < original->shape.stages; stage++) {
    for (size_t a = original->first[stage]; a < original->first[stage + 1]; a++) {
      for (size_t b = original->first[stage]; b < original->first[stage + 1]; b++) {
        train_schedule_t *mutant;
        if (a == b || !takes_edit(number++)) continue;
        train_action_t moved = original->actions[a];
        if (a < b) {
          cr_assert_eq(train_schedule_copy(original, &mutant), COLL_OK);
          mutant->actions[a] = original->actions[b];
          mutant->actions[b] = moved;
          judge(mutant, original, "swap", a, tally);
        }
        cr_assert_eq(train_schedule_copy(original, &mutant), COLL_OK);
        if (a < b) {
          memmove(&mutant->actions[a], &mutant->actions[a + 1], (b - a) * sizeof moved);
        } else {
          memmove(&mutant->actions[b + 1], &mutant->actions[b], (a - b) * sizeof moved);
        }
        mutant->actions[b] = moved;
        judge(mutant, original, "move", a, tally);
      }
    }
  }
}

static void mutate(train_schedule_shape_t shape) {
  train_schedule_t *original;
  tally_t tally = {0};
  cr_assert_eq(train_schedule_create(&shape, &original), COLL_OK, "%s", base_last_error());
  cr_assert(checker_accepts(original), "%s", base_last_error());
  cr_assert(oracle_accepts(original, original));
  drop_and_double(original, &tally);
  change_members(original, &tally);
  reorder(original, &tally);
  cr_log_info("%s: %d mutants rejected, %d valid", train_schedule_names[shape.kind], tally.rejected,
              tally.valid);
  cr_assert(tally.rejected > tally.valid);
  train_schedule_destroy(original);
}

Test(mutants, naive) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_NAIVE, 3, 2, 2, 1, 1});
}

Test(mutants, gpipe) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_GPIPE, 3, 3, 1, 1, 1});
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_GPIPE, 2, 2, 2, 1, 1});
}

Test(mutants, one_forward_one_backward) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 3, 5, 1, 1, 1});
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 4, 2, 2, 1, 1});
}

Test(mutants, interleaved) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 2, 4, 1, 2, 1});
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 1, 2, 1, 2, 1});
}

Test(mutants, zero_bubble) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_ZB_H1, 3, 4, 1, 1, 1});
}

Test(mutants, pipedream) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_PIPEDREAM, 3, 6, 1, 1, 1});
}

Test(mutants, pipedream_2bw) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_PIPEDREAM_2BW, 3, 3, 3, 1, 1});
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_PIPEDREAM_2BW, 4, 2, 3, 1, 1});
}

Test(mutants, terapipe) {
  mutate((train_schedule_shape_t){TRAIN_SCHEDULE_TERAPIPE, 2, 2, 1, 1, 3});
}
