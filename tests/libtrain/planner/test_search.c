/* The search: which layouts it prefers, and what it says of those that are not possible. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "jobs.h"
#include "libtrain/planner/search.h"

static int host_of[JOBS_RANKS_MAX];

/* A model whose layers are wide, so that tensor parallelism is worth considering. */
static train_plan_job_t wide_job(void) {
  train_plan_job_t job = small_job();
  job.model = (train_model_config_t){50257, 1024, 8, 16, 4096};
  job.precision = TRAIN_PRECISION_BF16;
  return job;
}

static void search(const train_plan_job_t *job, int per_host, const train_plan_wanted_t *wanted,
                   train_plan_list_t *list) {
  static const train_plan_wanted_t free_choice = TRAIN_PLAN_WANTED_INIT;
  train_plan_machine_t machine = machine_of(16, per_host, host_of);
  machine.flops = 300e12;
  cr_assert_eq(train_plan_search(job, &machine, wanted != NULL ? wanted : &free_choice, list),
               COLL_OK);
}

/* The best candidate with that many tensor ranks. */
static const train_plan_candidate_t *with_tensor(const train_plan_list_t *list, int tensor) {
  for (int i = 0; i < list->possible; i++) {
    if (list->candidates[i].layout.mesh.size[TRAIN_MESH_TP] == tensor) return &list->candidates[i];
  }
  return NULL;
}

Test(plan_search, every_division_once) {
  const train_plan_job_t job = wide_job();
  train_plan_list_t list;
  search(&job, 4, NULL, &list);
  cr_expect_eq(list.count, 35); /* 16 = 2^4 over four axes */
  cr_expect_gt(list.possible, 0);
  for (int i = 1; i < list.possible; i++) {
    cr_expect_leq(list.candidates[i - 1].cost.time.step, list.candidates[i].cost.time.step);
  }
  for (int i = 0; i < list.count; i++) {
    const train_plan_candidate_t *candidate = &list.candidates[i];
    cr_expect_eq(candidate->limit == TRAIN_PLAN_POSSIBLE, i < list.possible);
    cr_expect_eq(candidate->reason[0] == '\0', i < list.possible);
  }
  train_plan_list_free(&list);
}

/* Tensor ranks on one host are preferred to tensor ranks on two. */
Test(plan_search, tensor_inside_a_host) {
  train_plan_job_t job = wide_job();
  train_plan_list_t list;
  job.memory = 6000000000; /* a rank cannot hold the whole model's state */
  search(&job, 4, NULL, &list);
  cr_assert_gt(list.possible, 0);
  const train_plan_candidate_t *inside = with_tensor(&list, 4), *across = with_tensor(&list, 8);
  cr_assert(inside != NULL && across != NULL);
  cr_expect_lt(inside->cost.time.step, across->cost.time.step);
  cr_expect_eq(inside->cost.traffic.bytes[TRAIN_MESH_TP][TRAIN_PLAN_BETWEEN], 0);
  cr_expect_leq(list.candidates[0].layout.mesh.size[TRAIN_MESH_TP], 4);
  train_plan_list_free(&list);
}

/* With enough memory nothing is recomputed; with less, a smaller layout or recomputation. */
Test(plan_search, memory_limit) {
  train_plan_job_t job = wide_job();
  train_plan_list_t roomy, tight;
  search(&job, 4, NULL, &roomy);
  cr_expect_eq(roomy.candidates[0].layout.recompute, TRAIN_RECOMPUTE_NONE);
  job.memory = 4000000000;
  search(&job, 4, NULL, &tight);
  cr_assert_gt(tight.possible, 0);
  cr_expect_lt(tight.possible, roomy.possible);
  for (int i = 0; i < tight.possible; i++) {
    cr_expect_leq(tight.candidates[i].cost.memory.total, job.memory);
  }
  cr_expect_eq(tight.candidates[tight.count - 1].limit, TRAIN_PLAN_LIMIT_MEMORY);
  cr_expect(strstr(tight.candidates[tight.count - 1].reason, "of 4.00 GB") != NULL);
  cr_expect_geq(tight.candidates[0].cost.time.step, roomy.candidates[0].cost.time.step);
  train_plan_list_free(&roomy);
  train_plan_list_free(&tight);
}

/* 25 heads, as in gpt2-xl: no tensor parallelism on 16 ranks. */
Test(plan_search, uneven_heads) {
  train_plan_job_t job = wide_job();
  train_plan_list_t list;
  job.model = (train_model_config_t){50257, 1024, 48, 25, 1600};
  search(&job, 4, NULL, &list);
  for (int i = 0; i < list.count; i++) {
    const train_plan_candidate_t *candidate = &list.candidates[i];
    if (candidate->layout.mesh.size[TRAIN_MESH_TP] == 1) continue;
    cr_expect_eq(candidate->limit, TRAIN_PLAN_LIMIT_MESH);
    cr_expect(strstr(candidate->reason, "does not divide the 25 attention heads") != NULL);
  }
  train_plan_list_free(&list);
}

Test(plan_search, keeps_what_is_decided) {
  const train_plan_job_t job = wide_job();
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t list;
  wanted.mesh.size[TRAIN_MESH_TP] = 2;
  wanted.mesh.size[TRAIN_MESH_PP] = 4;
  wanted.micro_batches = 4;
  wanted.zero = 1;
  wanted.schedule = TRAIN_SCHEDULE_GPIPE;
  wanted.recompute = TRAIN_RECOMPUTE_BLOCK;
  search(&job, 4, &wanted, &list);
  cr_assert_gt(list.possible, 0);
  cr_expect_eq(list.count, 2); /* 2 = 2 x 1 and 1 x 2 over data and context */
  char text[TRAIN_PLAN_FLAGS_BYTES];
  for (int i = 0; i < list.possible; i++) {
    train_plan_flags(&list.candidates[i].layout, text);
    cr_expect(strstr(text, "--tp 2") != NULL && strstr(text, "--pp 4") != NULL, "%s", text);
    cr_expect(strstr(text, "--zero 1 --accumulate 4") != NULL, "%s", text);
    cr_expect(strstr(text, "--schedule gpipe --recompute block") != NULL, "%s", text);
  }
  train_plan_list_free(&list);
}

/* A schedule that computes something else, and virtual stages that do not fit, make no layout
 * possible.
 */
/* Experts that do not fit one rank are divided among several, of the data ranks that there are;
 * with room for all of them, those of every size that is possible are compared. */
Test(plan_search, divides_experts) {
  train_plan_job_t job = small_job();
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t roomy, tight, given;
  job.model.experts = 8;
  job.model.top_k = 1;
  job.model.moe_every = 1;
  wanted.mesh.size[TRAIN_MESH_TP] = wanted.mesh.size[TRAIN_MESH_PP] = 1;
  wanted.mesh.size[TRAIN_MESH_CP] = 1;
  wanted.zero = 0;
  search(&job, 4, &wanted, &roomy);
  cr_assert_eq(roomy.count, 1);
  cr_assert_eq(roomy.possible, 1);
  wanted.mesh.ep = 1;
  search(&job, 4, &wanted, &given);
  cr_assert_eq(given.possible, 1);
  cr_expect_leq(roomy.candidates[0].cost.time.step, given.candidates[0].cost.time.step);
  cr_expect_gt(roomy.layouts, given.layouts);
  job.memory = given.candidates[0].cost.memory.total / 2;
  search(&job, 4, &wanted, &tight);
  cr_expect_eq(tight.possible, 0);
  train_plan_list_free(&tight);
  wanted.mesh.ep = 0;
  search(&job, 4, &wanted, &tight);
  cr_assert_eq(tight.possible, 1, "%s", tight.candidates[0].reason);
  cr_expect_gt(tight.candidates[0].layout.mesh.size[TRAIN_MESH_EP], 1);
  train_plan_list_free(&roomy);
  train_plan_list_free(&tight);
  train_plan_list_free(&given);
}

/* Every pipeline is cut by the costs: here the head takes as long as all others. */
Test(plan_search, stages_of_unequal_layers) {
  const train_plan_job_t job = wide_job();
  const double costs[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 9};
  const int blocks[] = {2, 6};
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t list;
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  wanted.layer_costs = costs;
  wanted.mesh.size[TRAIN_MESH_PP] = 2;
  wanted.schedule = TRAIN_SCHEDULE_1F1B;
  search(&job, 4, &wanted, &list);
  cr_assert_gt(list.possible, 0, "%s", list.candidates[0].reason);
  train_plan_flags(&list.candidates[0].layout, flags);
  cr_expect(strstr(flags, "--partition 8,0") != NULL, "%s", flags);
  train_plan_list_free(&list);
  wanted.layer_costs = NULL;
  wanted.blocks = blocks;
  wanted.block_ranges = 2;
  wanted.mesh.size[TRAIN_MESH_PP] = 0;
  search(&job, 4, &wanted, &list);
  cr_assert_gt(list.possible, 0, "%s", list.candidates[0].reason);
  for (int i = 0; i < list.possible; i++) {
    train_plan_flags(&list.candidates[i].layout, flags);
    cr_expect(strstr(flags, "--pp 2 ") && strstr(flags, "--partition 2,6"), "%s", flags);
  }
  train_plan_list_free(&list);
}

/* PipeDream is planned where it is asked for, of a model that it can train. */
Test(plan_search, stages_that_update_apart) {
  train_plan_job_t job = wide_job();
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t list;
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  job.model.untied = 1;
  wanted.mesh.size[TRAIN_MESH_PP] = 4;
  for (int i = 0; i < 2; i++) {
    wanted.schedule = i == 0 ? TRAIN_SCHEDULE_PIPEDREAM : TRAIN_SCHEDULE_PIPEDREAM_2BW;
    search(&job, 4, &wanted, &list);
    cr_assert_gt(list.possible, 0, "%s", list.candidates[0].reason);
    cr_expect_eq(list.candidates[0].cost.time.bubble, 0);
    train_plan_flags(&list.candidates[0].layout, flags);
    cr_expect(strstr(flags, "--clip-by stage") != NULL, "%s", flags);
    cr_expect(i == 1 || list.candidates[0].layout.schedule.micro_batches == 1);
    train_plan_list_free(&list);
  }
}

Test(plan_search, impossible_schedules) {
  const train_plan_job_t job = wide_job();
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t list;
  wanted.mesh.size[TRAIN_MESH_PP] = 4;
  wanted.schedule = TRAIN_SCHEDULE_PIPEDREAM;
  search(&job, 4, &wanted, &list);
  cr_expect_eq(list.possible, 0);
  cr_expect_eq(list.candidates[0].limit, TRAIN_PLAN_LIMIT_SCHEDULE);
  cr_expect(strstr(list.candidates[0].reason, "pipedream") != NULL, "%s",
            list.candidates[0].reason);
  train_plan_list_free(&list);
  wanted.mesh.size[TRAIN_MESH_PP] = 8; /* a layer each */
  wanted.schedule = TRAIN_SCHEDULE_INTERLEAVED;
  search(&job, 4, &wanted, &list);
  cr_expect_eq(list.possible, 0);
  cr_expect(strstr(list.candidates[0].reason, "8 layers cannot") != NULL, "%s",
            list.candidates[0].reason);
  train_plan_list_free(&list);
}

/* TeraPipe is planned if it is wanted, with slices of equal time or the given ones; not with
 * context ranks. */
Test(plan_search, slices) {
  const train_plan_job_t job = wide_job();
  train_plan_wanted_t wanted = TRAIN_PLAN_WANTED_INIT;
  train_plan_list_t list;
  char text[TRAIN_PLAN_FLAGS_BYTES];
  search(&job, 4, NULL, &list);
  for (int i = 0; i < list.possible; i++) {
    cr_expect_neq(list.candidates[i].layout.schedule.kind, TRAIN_SCHEDULE_TERAPIPE);
  }
  train_plan_list_free(&list);
  wanted.mesh.size[TRAIN_MESH_PP] = 4;
  wanted.schedule = TRAIN_SCHEDULE_TERAPIPE;
  wanted.slices = 3;
  search(&job, 4, &wanted, &list);
  cr_assert_gt(list.possible, 0);
  for (int i = 0; i < list.count; i++) {
    const train_plan_candidate_t *candidate = &list.candidates[i];
    bool context = candidate->layout.mesh.size[TRAIN_MESH_CP] > 1;
    cr_expect_eq(candidate->limit, context ? TRAIN_PLAN_LIMIT_SLICES : TRAIN_PLAN_POSSIBLE);
    cr_expect_eq(candidate->layout.slices.count, 3);
  }
  train_plan_list_free(&list);
  wanted.slices = 2;
  wanted.slice_lengths = (train_slices_t){2, {job.model.context - 8, 8}};
  search(&job, 4, &wanted, &list);
  snprintf(text, sizeof text, "--slices %d,8", job.model.context - 8);
  char flags[TRAIN_PLAN_FLAGS_BYTES];
  cr_expect(strstr(train_plan_flags(&list.candidates[0].layout, flags), text) != NULL, "%s", flags);
  train_plan_list_free(&list);
}

Test(plan_search, flags) {
  train_plan_layout_t layout = layout_of(4, 1, 1, 1);
  char text[TRAIN_PLAN_FLAGS_BYTES];
  cr_expect_str_eq(train_plan_flags(&layout, text), "--dp 4");
  layout = layout_of(2, 2, 2, 2);
  layout.sequence = true;
  layout.attention = TRAIN_CONTEXT_ULYSSES;
  layout.schedule.kind = TRAIN_SCHEDULE_INTERLEAVED;
  layout.schedule.chunks = 2;
  layout.schedule.micro_batches = 4;
  cr_expect_str_eq(train_plan_flags(&layout, text),
                   "--dp 2 --tp 2 --cp 2 --pp 2 --sp --accumulate 4 --cp-kind ulysses "
                   "--schedule interleaved --virtual-stages 2");
}
