/* The tuner's choices: the cheapest possible algorithm, deterministic, and as expected on a typical
 * machine. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/names.h"
#include "tune/sched_sim.h"
#include "tune/tune.h"

enum { ALGOS_MAX = 64 };

static tune_estimate_t estimate_of(const tune_machine_t *machine, const tune_profile_t *profile,
                                   const tune_call_t *call) {
  tune_estimate_t estimate;
  cr_assert_eq(tune_estimate(machine, profile, call, &estimate), COLL_OK);
  return estimate;
}

static int choose_of(const tune_machine_t *machine, const tune_profile_t profiles[], int count,
                     const tune_call_t *call) {
  int best;
  cr_assert_eq(tune_choose(machine, profiles, count, call, &best), COLL_OK);
  return best;
}

typedef struct field {
  tune_profile_t profiles[ALGOS_MAX];
  int count;
} field_t;

static field_t field_of(coll_collective_t collective, int size) {
  field_t field = {.count = 0};
  const algo_t *algo;
  while ((algo = algo_at(collective, field.count)) != NULL) {
    cr_assert_eq(
        tune_profile_make(algo, size, NULL, &plan_host_capabilities, &field.profiles[field.count]),
        COLL_OK, "%s", base_last_error());
    field.count++;
  }
  return field;
}

/* The slots and scratch of communicators of few ranks. */
static tune_call_t call_of(coll_collective_t collective, size_t bytes, int size,
                           plan_reach_t reach) {
  return (tune_call_t){
      .collective = collective,
      .bytes = bytes,
      .element_bytes = 4,
      .size = size,
      .cores = size,
      .reach = reach,
      .room = {.slot_bytes = 32 << 10, .mcast_bytes = 32 << 10, .scratch_bytes = 512 << 10}};
}

static const tune_profile_t *chosen(const field_t *field, const tune_call_t *call) {
  int index = choose_of(&tune_machine_builtin, field->profiles, field->count, call);
  cr_assert(index >= 0 && index < field->count);
  return &field->profiles[index];
}

static void expect(coll_collective_t collective, size_t bytes, int size, plan_reach_t reach,
                   const char *name) {
  field_t field = field_of(collective, size);
  tune_call_t call = call_of(collective, bytes, size, reach);
  const tune_profile_t *found = chosen(&field, &call);
  cr_expect_str_eq(found->algo->name, name, "%s of %zu bytes among %d: %s, not %s",
                   base_collective_name(collective), bytes, size, found->algo->name, name);
}

Test(tune, expected_choices) {
  expect(COLL_ALLREDUCE, 4, 2, PLAN_REACH_USER, "butterfly");
  expect(COLL_ALLREDUCE, 4, 2, PLAN_REACH_SCRATCH, "butterfly");
  expect(COLL_ALLREDUCE, 1 << 20, 2, PLAN_REACH_USER, "twophase_push");
  expect(COLL_ALLREDUCE, 1 << 20, 4, PLAN_REACH_USER, "twophase_push");
  expect(COLL_ALLREDUCE, 1 << 20, 2, PLAN_REACH_SCRATCH, "staged_by_two_push");
  expect(COLL_ALLREDUCE, 1 << 20, 4, PLAN_REACH_SCRATCH, "staged");
  expect(COLL_REDUCE_SCATTER, 1 << 20, 2, PLAN_REACH_USER, "mapped");
  expect(COLL_ALLGATHER, 1 << 20, 2, PLAN_REACH_USER, "mapped_push");
  expect(COLL_ALLTOALL, 1 << 20, 4, PLAN_REACH_USER, "mapped");
  expect(COLL_BROADCAST, 4, 8, PLAN_REACH_OWN, "linear");
  expect(COLL_BROADCAST, 1 << 20, 2, PLAN_REACH_USER, "mapped_shares");
  expect(COLL_GATHER, 1 << 20, 4, PLAN_REACH_USER, "mapped");
  expect(COLL_SCATTER, 1 << 20, 4, PLAN_REACH_USER, "mapped");
  expect(COLL_REDUCE, 1 << 20, 4, PLAN_REACH_USER, "mapped");
}

/* With two cores for all ranks. */
static void expect_oversubscribed(coll_collective_t collective, size_t bytes, int size,
                                  plan_reach_t reach, const char *name) {
  field_t field = field_of(collective, size);
  tune_call_t call = call_of(collective, bytes, size, reach);
  call.cores = 2;
  call.bound = true;
  for (int i = 0; i < field.count; i++) {
    cr_assert_eq(tune_sched_sim(&field.profiles[i], size, call.cores), COLL_OK);
  }
  const tune_profile_t *found = chosen(&field, &call);
  cr_expect_str_eq(found->algo->name, name, "%s of %zu bytes among %d: %s, not %s",
                   base_collective_name(collective), bytes, size, found->algo->name, name);
}

/* Few context switches with two ranks per core, few bytes with many. */
Test(tune, expected_choices_with_oversubscription) {
  expect_oversubscribed(COLL_BARRIER, 0, 4, PLAN_REACH_USER, "allpairs");
  expect_oversubscribed(COLL_REDUCE_SCATTER, 1 << 10, 4, PLAN_REACH_SCRATCH, "allpairs");
  expect_oversubscribed(COLL_ALLREDUCE, 4, 4, PLAN_REACH_USER, "allpairs");
  expect_oversubscribed(COLL_ALLREDUCE, 1 << 14, 4, PLAN_REACH_SCRATCH, "allpairs");
  expect_oversubscribed(COLL_ALLREDUCE, 1 << 16, 8, PLAN_REACH_SCRATCH, "staged_by_two");
  expect_oversubscribed(COLL_ALLREDUCE, 1 << 16, 4, PLAN_REACH_USER, "mapped_by_two");
  expect_oversubscribed(COLL_ALLREDUCE, 1 << 16, 8, PLAN_REACH_USER, "mapped_by_two");
  expect_oversubscribed(COLL_BROADCAST, 1 << 16, 4, PLAN_REACH_USER, "mapped_shares");
  expect_oversubscribed(COLL_BROADCAST, 1 << 22, 4, PLAN_REACH_USER, "mapped_shares");
}

static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 1024};

/* Calls of all kinds, for all profiles of all collectives. */
static void each_call(void (*check)(const field_t *field, const tune_call_t *call)) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      field_t field = field_of((coll_collective_t)c, sizes[s]);
      for (int reach = 0; reach < PLAN_REACH_COUNT; reach++) {
        for (int class = 0; class < 2 * 40; class += 3) {
          tune_call_t call =
              call_of((coll_collective_t)c, tune_class_bytes(class), sizes[s], (plan_reach_t)reach);
          if (call.bytes > ((size_t)1 << 50) / (size_t)(sizes[s] * sizes[s])) break;
          call.cores = class % 2 == 0 ? sizes[s] : 1 + sizes[s] / 3;
          call.element_bytes = (size_t)1 << class % 4;
          call.room.slot_bytes = class % 3 == 0 ? 1 << 10 : 32 << 10;
          call.room.mcast_bytes = class % 6 == 0 ? 0 : 16 << 10;
          check(&field, &call);
        }
      }
    }
  }
}

static void check_cheapest(const field_t *field, const tune_call_t *call) {
  int index = choose_of(&tune_machine_builtin, field->profiles, field->count, call);
  uint64_t least_ps = UINT64_MAX, total_ps[ALGOS_MAX] = {0};
  for (int i = 0; i < field->count; i++) {
    const tune_profile_t *profile = &field->profiles[i];
    tune_estimate_t estimate = estimate_of(&tune_machine_builtin, profile, call);
    size_t slot_bytes = profile->load.multicast ? call->room.mcast_bytes : call->room.slot_bytes;
    bool fits =
        (size_t)profile->load.message_chunks * call->element_bytes <= slot_bytes &&
        (size_t)profile->load.scratch_chunks * call->element_bytes <= call->room.scratch_bytes;
    bool possible = profile->verdict == TUNE_POSSIBLE && profile->reach <= call->reach && fits;
    cr_assert_eq(estimate.verdict == TUNE_POSSIBLE, possible, "%s", profile->algo->name);
    if (!possible) {
      cr_assert_eq(estimate.total_ps, 0);
      cr_assert_neq(i, index, "%s cannot serve the call", profile->algo->name);
      continue;
    }
    uint64_t sum_ps = 0;
    for (int term = 0; term < TUNE_TERM_COUNT; term++) sum_ps += estimate.term_ps[term];
    cr_assert_eq(sum_ps, estimate.total_ps);
    total_ps[i] = estimate.total_ps;
    if (total_ps[i] < least_ps) least_ps = total_ps[i];
  }
  if (least_ps == UINT64_MAX) {
    cr_assert_eq(index, -1);
    return;
  }
  cr_assert(index >= 0 && index < field->count);
  cr_assert_leq(total_ps[index], least_ps + least_ps / TUNE_AS_GOOD, "%s costs %lu, not %lu",
                field->profiles[index].algo->name, total_ps[index], least_ps);
}

Test(tune, chooses_the_cheapest_possible) {
  each_call(check_cheapest);
}

static void check_same(const field_t *field, const tune_call_t *call) {
  for (int i = 0; i < field->count; i++) {
    tune_estimate_t first = estimate_of(&tune_machine_builtin, &field->profiles[i], call);
    tune_profile_t copy = field->profiles[i];
    tune_estimate_t second = estimate_of(&tune_machine_builtin, &copy, call);
    cr_assert_arr_eq(&first, &second, sizeof first);
  }
}

Test(tune, is_deterministic) {
  each_call(check_same);
}

/* Neither more bytes nor fewer cores make a call cheaper. */
static void check_growth(const field_t *field, const tune_call_t *call) {
  tune_call_t larger = *call, tighter = *call;
  larger.bytes = tune_class_bytes(tune_class_of(call->bytes) + 1);
  tighter.cores = 1;
  for (int i = 0; i < field->count; i++) {
    const tune_profile_t *profile = &field->profiles[i];
    tune_estimate_t estimate = estimate_of(&tune_machine_builtin, profile, call);
    if (estimate.verdict != TUNE_POSSIBLE) continue;
    cr_assert_geq(estimate_of(&tune_machine_builtin, profile, &larger).total_ps, estimate.total_ps,
                  "%s %s among %d: %zu bytes cost more than %zu",
                  base_collective_name(call->collective), profile->algo->name, call->size,
                  call->bytes, larger.bytes);
    cr_assert_geq(estimate_of(&tune_machine_builtin, profile, &tighter).total_ps, estimate.total_ps,
                  "%s %s among %d: %d cores cost more than one",
                  base_collective_name(call->collective), profile->algo->name, call->size,
                  call->cores);
  }
}

Test(tune, prices_grow_with_bytes_and_fewer_cores) {
  each_call(check_growth);
}

/* With few ranks, there is one size from which on the address exchange and access to peers' memory
 * pay off. */
Test(tune, access_to_user_memory_pays_from_one_size_on) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int size = 2; size <= 4; size++) {
      field_t field = field_of((coll_collective_t)c, size);
      bool reached = false;
      for (int class = 2; class < 2 * 28; class ++) {
        tune_call_t call =
            call_of((coll_collective_t)c, tune_class_bytes(class), size, PLAN_REACH_USER);
        bool reaches = chosen(&field, &call)->reach == PLAN_REACH_USER;
        cr_assert(reaches || !reached, "%s among %d switches back at %zu bytes",
                  base_collective_name((coll_collective_t)c), size, call.bytes);
        reached = reaches;
      }
    }
  }
}

Test(tune, a_large_call_takes_several_passes) {
  const algo_t *algo;
  tune_profile_t ring;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "ring", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 4, NULL, &plan_host_capabilities, &ring), COLL_OK);
  tune_call_t call = call_of(COLL_ALLREDUCE, 1 << 20, 4, PLAN_REACH_OWN);
  tune_estimate_t estimate = estimate_of(&tune_machine_builtin, &ring, &call);
  cr_expect_eq(estimate.passes, 8); /* four parts of one slot each */
  cr_expect_geq(estimate.term_ps[TUNE_TERM_MESSAGES],
                8 * 2 * 6 * (uint64_t)tune_machine_builtin.fixed_ps[TUNE_MESSAGE]);
  call.bytes = 128 << 10;
  cr_expect_eq(estimate_of(&tune_machine_builtin, &ring, &call).passes, 1);
  call.bytes++;
  cr_expect_eq(estimate_of(&tune_machine_builtin, &ring, &call).passes, 2);
}

/* A call costs a sequence of calls the work of its busiest rank, not the path from the first rank
 * to the last. */
/* Slices divide the passes, and with them what steps cost; all bytes go through one memory. */
Test(tune, slices_run_side_by_side) {
  enum { SLICES = 16 };
  field_t field = field_of(COLL_ALLREDUCE, 8);
  tune_call_t call = call_of(COLL_ALLREDUCE, (size_t)64 << 20, 8, PLAN_REACH_SCRATCH);
  tune_estimate_t whole[ALGOS_MAX];
  for (int i = 0; i < field.count; i++) {
    whole[i] = estimate_of(&tune_machine_gpu, &field.profiles[i], &call);
  }
  int before = choose_of(&tune_machine_gpu, field.profiles, field.count, &call);
  call.slices = SLICES;
  for (int i = 0; i < field.count; i++) {
    tune_estimate_t cut = estimate_of(&tune_machine_gpu, &field.profiles[i], &call);
    uint64_t own_ps = whole[i].term_ps[TUNE_TERM_OWN];
    if (whole[i].verdict != TUNE_POSSIBLE) continue;
    cr_assert_eq(cut.passes, (whole[i].passes + SLICES - 1) / SLICES);
    cr_assert_leq(cut.total_ps, whole[i].total_ps, "%s", field.profiles[i].algo->name);
    cr_assert_leq(own_ps / 2, cut.term_ps[TUNE_TERM_OWN], "%s", field.profiles[i].algo->name);
  }
  int after = choose_of(&tune_machine_gpu, field.profiles, field.count, &call);
  cr_assert_str_eq(field.profiles[after].algo->name, "staged", "before: %s",
                   field.profiles[before].algo->name);
}

Test(tune, ranks_that_do_not_wait_run_ahead) {
  tune_profile_t sent;
  const algo_t *algo;
  cr_assert_eq(algo_find(COLL_BROADCAST, "chain", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 8, NULL, &plan_host_capabilities, &sent), COLL_OK);
  tune_call_t call = call_of(COLL_BROADCAST, 4, 8, PLAN_REACH_OWN);
  uint64_t time_ps = estimate_of(&tune_machine_builtin, &sent, &call).total_ps;
  cr_expect_lt(time_ps, 7 * (uint64_t)tune_machine_builtin.fixed_ps[TUNE_HOP],
               "%lu ps, as if no rank ran ahead", time_ps);
}

/* Where two ranks work for all and may share a core, the other core idles. */
Test(tune, executors_should_not_share_a_core) {
  tune_profile_t profile;
  const algo_t *algo;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "mapped_by_two", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 8, NULL, &plan_host_capabilities, &profile), COLL_OK);
  cr_assert_eq(tune_sched_sim(&profile, 8, 2), COLL_OK);
  tune_call_t call = call_of(COLL_ALLREDUCE, 1 << 20, 8, PLAN_REACH_USER);
  call.cores = 2;
  tune_estimate_t apart, anywhere = estimate_of(&tune_machine_builtin, &profile, &call);
  call.bound = true;
  apart = estimate_of(&tune_machine_builtin, &profile, &call);
  uint64_t far_ps = apart.term_ps[TUNE_TERM_FAR];
  cr_expect(far_ps > 0);
  cr_expect_leq(anywhere.term_ps[TUNE_TERM_FAR] - 2 * far_ps, 1);
  cr_expect_eq(anywhere.term_ps[TUNE_TERM_HOPS], apart.term_ps[TUNE_TERM_HOPS]);
}

/* ---- order ----------------------------------------------------------------------------------*/

Test(tune, order_depends_on_dtype_and_op) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bool integer = base_dtype_is_integer((coll_dtype_t)dtype);
    bool wide = dtype == COLL_FLOAT32 || dtype == COLL_FLOAT64;
    for (int op = 0; op <= COLL_OP_BUILTIN_COUNT; op++) {
      bool rounds = op != COLL_MAX && op != COLL_MIN;
      bool averages = op == COLL_AVG, narrow = !integer && !wide;
      cr_expect_eq(tune_order_of(COLL_ALLREDUCE, dtype, op, true), integer ? TUNE_ORDER_ANY
                                                                   : wide  ? TUNE_ORDER_CANONICAL
                                                                           : TUNE_ORDER_EXACT);
      tune_order_t preferred = integer                          ? TUNE_ORDER_ANY
                               : narrow && averages             ? TUNE_ORDER_EXACT
                               : averages || (narrow && rounds) ? TUNE_ORDER_PREFER_EXACT
                                                                : TUNE_ORDER_ANY;
      cr_expect_eq(tune_order_of(COLL_REDUCE, dtype, op, false), preferred);
      cr_expect_eq(tune_order_of(COLL_ALLGATHER, dtype, op, true), TUNE_ORDER_ANY);
    }
  }
}

/* A plan whose ranks may hold different bits is a user's choice alone. */
Test(tune, any_order_is_never_chosen) {
  for (tune_order_t order = TUNE_ORDER_ANY; order <= TUNE_ORDER_EXACT; order++) {
    cr_expect(!tune_order_allows(order, PLAN_ORDER_ANY));
    cr_expect(tune_order_allows(order, PLAN_ORDER_EXACT));
  }
}

/* For every size and kind of memory there is a plan of every order, and the chosen plan has the
 * required order. Without a requirement, an exact plan is chosen only if its price is about
 * equal. */
static void required_order_is_respected(coll_collective_t collective, int size, int cores) {
  field_t field = field_of(collective, size);
  for (size_t bytes = 4; bytes <= 64 << 20; bytes *= 4) {
    for (int reach = 0; reach < PLAN_REACH_COUNT; reach++) {
      tune_call_t call = call_of(collective, bytes, size, (plan_reach_t)reach);
      call.cores = cores;
      call.order = TUNE_ORDER_CANONICAL;
      cr_expect_geq(chosen(&field, &call)->order, PLAN_ORDER_CANONICAL);
      call.order = TUNE_ORDER_EXACT;
      cr_expect_eq(chosen(&field, &call)->order, PLAN_ORDER_EXACT);
      call.order = TUNE_ORDER_PREFER_EXACT;
      const tune_profile_t *preferred = chosen(&field, &call);
      uint64_t cost_ps = estimate_of(&tune_machine_builtin, preferred, &call).total_ps;
      for (int i = 0; i < field.count; i++) {
        tune_estimate_t other = estimate_of(&tune_machine_builtin, &field.profiles[i], &call);
        if (other.verdict != TUNE_POSSIBLE) continue;
        cr_expect_leq(cost_ps, other.total_ps + other.total_ps / TUNE_AS_GOOD);
        bool as_good = other.total_ps <= cost_ps && field.profiles[i].order == PLAN_ORDER_EXACT;
        cr_expect(!as_good || preferred->order == PLAN_ORDER_EXACT, "%s, not %s",
                  preferred->algo->name, field.profiles[i].algo->name);
      }
    }
  }
}

Test(tune, required_order_is_respected) {
  static const coll_collective_t reducing[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER};
  for (int i = 0; i < 3; i++) {
    for (int size = 2; size <= 16; size += size < 5 ? 1 : 11) {
      required_order_is_respected(reducing[i], size, size);
      required_order_is_respected(reducing[i], size, 2);
    }
  }
}
