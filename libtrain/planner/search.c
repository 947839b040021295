/*
 * All divisions of the ranks among the axes, and for each all settings that are not decided. The
 * time of a layout is computed before its memory, which takes longer, so that most layouts need no
 * memory computed: those that are not faster than the best one so far.
 */
#include "libtrain/planner/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/parallel/store_options.h"
#include "libtrain/planner/parts.h"
#include "libtrain/planner/slices.h"
#include "libtrain/schedule/stages.h"

#define EQUAL_TIME 1.005 /* layouts within this factor are equally fast */
#define VIRTUAL_STAGES_MAX 8

/* Parts that are made when the memory of a layout is asked for. */
typedef struct lazy_parts {
  plan_parts_t parts;
  bool made;
} lazy_parts_t;

typedef struct search {
  const train_plan_job_t *job;
  const train_plan_machine_t *machine;
  const train_plan_wanted_t *wanted;
  train_plan_list_t *list;
  /* of the division being searched */
  train_plan_candidate_t *best;
  plan_links_t links;
  lazy_parts_t *parts;
} search_t;

/* Keeps the reason of the layout that passed most conditions, and of those that need too much
 * memory the one that needs least. */
static void keep_reason(const search_t *search, const train_plan_layout_t *layout,
                        const train_plan_cost_t *cost, train_plan_limit_t limit) {
  train_plan_candidate_t *best = search->best;
  bool of_memory = limit == TRAIN_PLAN_LIMIT_MEMORY;
  if (best->limit == TRAIN_PLAN_POSSIBLE && best->cost.time.step > 0) return;
  if (limit < best->limit) return;
  if (limit == best->limit && !(of_memory && cost->memory.total < best->cost.memory.total)) {
    return;
  }
  best->layout = *layout;
  best->limit = limit;
  if (of_memory) best->cost.memory = cost->memory;
  snprintf(best->reason, sizeof best->reason, "%s", base_last_error());
}

/* Whether the layout with this time replaces the best one, if it needs that much memory. */
static bool is_better(const train_plan_candidate_t *best, const train_plan_cost_t *cost) {
  double step = cost->time.step, best_step = best->cost.time.step;
  if (best_step <= 0 || step * EQUAL_TIME < best_step) return true;
  return step < best_step * EQUAL_TIME && cost->memory.total < best->cost.memory.total;
}

static bool can_be_better(const train_plan_candidate_t *best, double step) {
  return best->cost.time.step <= 0 || step < best->cost.time.step * EQUAL_TIME;
}

static coll_status_t memory_of(const search_t *search, const train_plan_layout_t *layout,
                               train_plan_memory_t *memory) {
  lazy_parts_t *parts = search->parts;
  if (!parts->made) {
    plan_parts_free(&parts->parts); /* of an attempt that failed */
    COLL_TRY(plan_parts_init(search->job, layout, &parts->parts));
    parts->made = true;
  }
  return plan_memory(search->job, layout, &parts->parts, memory);
}

/* Fills *cost as far as it is needed to see that the layout is no better than the best one: first
 * the time without communication, then with it, then memory. */
static coll_status_t predict(const search_t *search, const train_plan_layout_t *layout,
                             train_plan_cost_t *cost, train_plan_limit_t *limit) {
  *cost = (train_plan_cost_t){0};
  COLL_TRY(train_plan_check(search->job, layout, limit));
  plan_time(search->job, layout, search->machine, &cost->traffic, &cost->time);
  if (!can_be_better(search->best, cost->time.step)) return COLL_OK;
  *limit = TRAIN_PLAN_LIMIT_BUCKET;
  COLL_TRY(plan_traffic(search->job, layout, &search->links, &cost->traffic));
  plan_time(search->job, layout, search->machine, &cost->traffic, &cost->time);
  if (!can_be_better(search->best, cost->time.step)) return COLL_OK;
  *limit = TRAIN_PLAN_LIMIT_SCHEDULE;
  COLL_TRY(memory_of(search, layout, &cost->memory));
  *limit = TRAIN_PLAN_LIMIT_MEMORY;
  return plan_check_memory(search->job, &cost->memory);
}

static coll_status_t consider(const search_t *search, const train_plan_layout_t *layout) {
  train_plan_limit_t limit;
  train_plan_cost_t cost;
  search->list->layouts++;
  coll_status_t status = predict(search, layout, &cost, &limit);
  if (status == COLL_ERROR_MEMORY) return status;
  if (status != COLL_OK) {
    keep_reason(search, layout, &cost, limit);
  } else if (can_be_better(search->best, cost.time.step) && is_better(search->best, &cost)) {
    *search->best = (train_plan_candidate_t){.layout = *layout, .cost = cost};
  }
  return COLL_OK;
}

/* ---- settings of a division, one function for each ---- */

static coll_status_t try_recompute(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->recompute;
  for (int i = TRAIN_RECOMPUTE_NONE; i <= TRAIN_RECOMPUTE_BLOCK; i++) {
    if (wanted >= 0 && i != wanted) continue;
    layout.recompute = (train_recompute_t)i;
    COLL_TRY(consider(search, &layout));
  }
  return COLL_OK;
}

/* A single replica has nobody to divide its state with. */
static coll_status_t try_zero(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->zero, replicas = plan_size(&layout, TRAIN_MESH_DATA);
  int last = replicas > 1 ? TRAIN_STAGE_MAX : 0;
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    if (wanted >= 0 ? stage != wanted : stage > last) continue;
    layout.zero = stage;
    COLL_TRY(try_recompute(search, layout));
  }
  return COLL_OK;
}

/* Lengths of slices depend on sequence parallelism. A context that cannot be cut into so many is
 * the reason why the layout is impossible. */
static coll_status_t try_slices(const search_t *search, train_plan_layout_t layout) {
  const train_plan_wanted_t *wanted = search->wanted;
  int multiple = layout.sequence ? plan_size(&layout, TRAIN_MESH_TP) : 1;
  if (layout.schedule.slices == 1) return try_zero(search, layout);
  layout.slices = wanted->slice_lengths;
  if (train_slices_are_cut(&layout.slices)) return try_zero(search, layout);
  coll_status_t status =
      train_plan_slices(&search->job->model, layout.schedule.slices, multiple, &layout.slices);
  if (status == COLL_OK) return try_zero(search, layout);
  search->list->layouts++;
  keep_reason(search, &layout, &(train_plan_cost_t){0}, TRAIN_PLAN_LIMIT_SLICES);
  return status == COLL_ERROR_INVALID ? COLL_OK : status;
}

static coll_status_t try_sequence(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->sequence;
  for (int i = 0; i <= 1; i++) {
    if (wanted >= 0 ? i != wanted : i == 1 && plan_size(&layout, TRAIN_MESH_TP) == 1) continue;
    layout.sequence = i == 1;
    COLL_TRY(try_slices(search, layout));
  }
  return COLL_OK;
}

static coll_status_t try_attention(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->attention;
  for (int i = TRAIN_CONTEXT_RING; i <= TRAIN_CONTEXT_ULYSSES; i++) {
    if (wanted >= 0 ? i != wanted : i > 0 && plan_size(&layout, TRAIN_MESH_CP) == 1) continue;
    layout.attention = (train_context_kind_t)i;
    COLL_TRY(try_sequence(search, layout));
  }
  return COLL_OK;
}

/* The cut by costs into that many stages, which the list keeps. NULL: there are too few layers. */
static coll_status_t cut_by_costs(const search_t *search, int ranges, const int **blocks) {
  const double *costs = search->wanted->layer_costs;
  int layers = search->job->model.layers;
  train_plan_list_t *list = search->list;
  *blocks = NULL;
  if (ranges > layers + 2) return COLL_OK;
  if (list->cuts == NULL) {
    COLL_TRY(base_alloc((size_t)layers + 3, sizeof(int *), "the stages", (void **)&list->cuts));
    list->cut_count = layers + 3;
  }
  if (list->cuts[ranges] == NULL) {
    void *memory;
    COLL_TRY(base_alloc((size_t)ranges, sizeof(int), "the stages", &memory));
    list->cuts[ranges] = memory;
    COLL_TRY(train_stages_blocks(costs, layers, ranges, memory));
  }
  *blocks = list->cuts[ranges];
  return COLL_OK;
}

/* Sets the layers of the stages as they are wanted. */
static coll_status_t set_blocks(const search_t *search, train_plan_layout_t *layout) {
  const train_plan_wanted_t *wanted = search->wanted;
  int ranges = layout->schedule.stages * layout->schedule.chunks;
  layout->blocks = wanted->blocks;
  layout->block_ranges = wanted->block_ranges;
  if (wanted->layer_costs == NULL || layout->schedule.stages == 1) return COLL_OK;
  layout->block_ranges = ranges;
  return cut_by_costs(search, ranges, &layout->blocks);
}

/* Whether a number of virtual stages that is free divides the layers. */
static bool can_cut(const search_t *search, int ranges) {
  const train_plan_wanted_t *wanted = search->wanted;
  if (wanted->blocks != NULL) return ranges == wanted->block_ranges;
  int layers = search->job->model.layers;
  return wanted->layer_costs != NULL ? ranges <= layers + 2 : layers % ranges == 0;
}

static coll_status_t try_parts(const search_t *search, const train_plan_layout_t *layout) {
  search_t here = *search;
  lazy_parts_t parts = {0};
  here.parts = &parts;
  coll_status_t status = try_attention(&here, *layout);
  plan_parts_free(&parts.parts);
  return status;
}

static coll_status_t try_virtual(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->virtual_stages, stages = layout.schedule.stages;
  COLL_TRY(set_blocks(search, &layout));
  if (layout.schedule.kind != TRAIN_SCHEDULE_INTERLEAVED) return try_parts(search, &layout);
  for (int chunks = 2; chunks <= VIRTUAL_STAGES_MAX; chunks++) {
    if (wanted > 0 ? chunks != wanted : !can_cut(search, stages * chunks)) continue;
    layout.schedule.chunks = chunks;
    COLL_TRY(set_blocks(search, &layout));
    COLL_TRY(try_parts(search, &layout));
  }
  return COLL_OK;
}

/* Whether a schedule may be the fastest. Without a pipeline all are the same; naive and GPipe are
 * never faster than 1F1B. */
static bool is_sensible(const train_plan_layout_t *layout, train_schedule_kind_t kind) {
  if (kind == TRAIN_SCHEDULE_1F1B) return true;
  bool faster = kind == TRAIN_SCHEDULE_INTERLEAVED || kind == TRAIN_SCHEDULE_ZB_H1;
  return faster && layout->schedule.stages > 1;
}

/* A single stage cuts nothing. */
static int slices_of(const search_t *search, const train_plan_layout_t *layout) {
  const train_schedule_shape_t *schedule = &layout->schedule;
  if (schedule->kind != TRAIN_SCHEDULE_TERAPIPE || schedule->stages == 1) return 1;
  return search->wanted->slices > 0 ? search->wanted->slices : TRAIN_PLAN_SLICES;
}

static coll_status_t try_schedules(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->schedule;
  for (int i = 0; i < TRAIN_SCHEDULE_KIND_COUNT; i++) {
    if (wanted >= 0 ? i != wanted : !is_sensible(&layout, (train_schedule_kind_t)i)) continue;
    layout.schedule.kind = (train_schedule_kind_t)i;
    layout.schedule.slices = slices_of(search, &layout);
    COLL_TRY(try_virtual(search, layout));
  }
  return COLL_OK;
}

/* All numbers of micro-batches that divide a data rank's sequences; one if the batch does not
 * divide, for the reason. */
static coll_status_t try_micro_batches(const search_t *search, train_plan_layout_t layout) {
  int wanted = search->wanted->micro_batches, batch = search->job->batch;
  int data = plan_size(&layout, TRAIN_MESH_DP), sequences = batch % data == 0 ? batch / data : 1;
  if (wanted > 0) {
    layout.schedule.micro_batches = wanted;
    return try_schedules(search, layout);
  }
  for (int micro = 1; micro <= sequences; micro++) {
    if (sequences % micro != 0) continue;
    layout.schedule.micro_batches = micro;
    COLL_TRY(try_schedules(search, layout));
  }
  return COLL_OK;
}

/* ---- divisions ---- */

/* Whether the model can be divided so with any settings. If not, the best candidate has the reason.
 */
static bool fits(const search_t *search, train_plan_layout_t layout) {
  train_plan_limit_t limit;
  int stages = layout.schedule.stages, ranges = search->wanted->block_ranges;
  layout.schedule.micro_batches = stages;
  if (stages > 1 && ranges > stages) layout.schedule.chunks = ranges / stages;
  for (int i = TRAIN_CONTEXT_ULYSSES; i >= TRAIN_CONTEXT_RING; i--) {
    layout.attention = (train_context_kind_t)i;
    train_plan_check(search->job, &layout, &limit);
    if (limit != TRAIN_PLAN_LIMIT_MESH) return true;
  }
  search->list->layouts++;
  keep_reason(search, &layout, &(train_plan_cost_t){0}, limit);
  return false;
}

/* Calls try_micro_batches for a mesh, whose candidate is *best. NULL: there is none yet. */
static coll_status_t try_mesh(const search_t *search, const train_mesh_shape_t *mesh,
                              train_plan_candidate_t **best) {
  train_plan_layout_t layout = {
      .mesh = *mesh,
      .schedule = {.steps = 1, .chunks = 1, .slices = 1, .stages = mesh->size[TRAIN_MESH_PP]}};
  search_t here = *search;
  if (*best == NULL) {
    *best = &search->list->candidates[search->list->count++];
    (*best)->layout = layout;
  }
  here.best = *best;
  COLL_TRY(set_blocks(&here, &layout));
  if (!fits(&here, layout)) return COLL_OK;
  COLL_TRY(plan_links_init(&layout.mesh, search->machine, &here.links));
  return try_micro_batches(&here, layout);
}

/* Whether so many ranks may hold the experts of a layer, as is wanted or else as is possible. */
static bool is_wanted_ep(const search_t *search, const int size[TRAIN_MESH_AXES], int ep) {
  int wanted = search->wanted->mesh.ep, experts = search->job->model.experts;
  if (wanted > 0) return ep == wanted;
  if (experts == 0) return ep == 1;
  return experts % ep == 0 && size[TRAIN_MESH_DP] * size[TRAIN_MESH_CP] % ep == 0;
}

/* Calls try_mesh for the division with each ep, or skips what is not wanted and what ep does not
 * divide. */
static coll_status_t try_division(const search_t *search, const int size[TRAIN_MESH_AXES]) {
  train_mesh_options_t options = search->wanted->mesh;
  train_plan_candidate_t *best = NULL;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    if (options.size[axis] != 0 && options.size[axis] != size[axis]) return COLL_OK;
    options.size[axis] = size[axis];
  }
  for (options.ep = 1; options.ep <= search->machine->ranks; options.ep++) {
    train_mesh_shape_t mesh;
    if (!is_wanted_ep(search, size, options.ep)) continue;
    if (train_mesh_shape_init(&options, search->machine->ranks, &mesh) != COLL_OK) continue;
    COLL_TRY(try_mesh(search, &mesh, &best));
  }
  if (best == NULL || best->limit != TRAIN_PLAN_POSSIBLE || best->cost.time.step > 0) {
    return COLL_OK;
  }
  best->limit = TRAIN_PLAN_LIMIT_SCHEDULE;
  snprintf(best->reason, sizeof best->reason,
           "%d layers cannot be divided evenly among virtual stages of --pp %d",
           search->job->model.layers, size[TRAIN_MESH_PP]);
  return COLL_OK;
}

/* Calls try_division for every division, or only counts them if the list has no room yet. */
static coll_status_t divide(const search_t *search, int *count) {
  int size[TRAIN_MESH_AXES] = {0};
  *count = 0;
  while (train_mesh_next_division(search->machine->ranks, size)) {
    ++*count;
    if (search->list->candidates != NULL) COLL_TRY(try_division(search, size));
  }
  return COLL_OK;
}

static int compare(const void *a, const void *b) {
  const train_plan_candidate_t *left = a, *right = b;
  if (left->limit != right->limit) return left->limit < right->limit ? -1 : 1;
  double difference = left->cost.time.step - right->cost.time.step;
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

coll_status_t train_plan_search(const train_plan_job_t *job, const train_plan_machine_t *machine,
                                const train_plan_wanted_t *wanted, train_plan_list_t *list) {
  search_t search = {.job = job, .machine = machine, .wanted = wanted, .list = list};
  train_mesh_shape_t any;
  void *memory;
  int count;
  *list = (train_plan_list_t){0};
  COLL_TRY(train_mesh_shape_init(&wanted->mesh, machine->ranks, &any));
  COLL_TRY(divide(&search, &count));
  COLL_TRY(base_alloc((size_t)count, sizeof(train_plan_candidate_t), "the layouts", &memory));
  list->candidates = memory;
  COLL_TRY(divide(&search, &count));
  qsort(list->candidates, (size_t)list->count, sizeof *list->candidates, compare);
  while (list->possible < list->count &&
         list->candidates[list->possible].limit == TRAIN_PLAN_POSSIBLE) {
    list->possible++;
  }
  return COLL_OK;
}

void train_plan_list_free(train_plan_list_t *list) {
  for (int i = 0; i < list->cut_count; i++) free(list->cuts[i]);
  free(list->cuts);
  free(list->candidates);
  *list = (train_plan_list_t){0};
}

/* ---- options ---- */

static void append(char text[TRAIN_PLAN_FLAGS_BYTES], const char *name, int value, int left_out) {
  size_t used = strlen(text);
  if (value == left_out) return;
  snprintf(text + used, TRAIN_PLAN_FLAGS_BYTES - used, "%s%s %d", used > 0 ? " " : "", name, value);
}

static void append_words(char text[TRAIN_PLAN_FLAGS_BYTES], const char *words) {
  size_t used = strlen(text);
  snprintf(text + used, TRAIN_PLAN_FLAGS_BYTES - used, "%s%s", used > 0 ? " " : "", words);
}

static void append_blocks(char text[TRAIN_PLAN_FLAGS_BYTES], const train_plan_layout_t *layout) {
  char words[TRAIN_STAGES_TEXT_BYTES];
  if (layout->blocks == NULL) return;
  append_words(text, "--partition");
  append_words(text, train_stages_text(layout->blocks, layout->block_ranges, words));
}

/* The lengths, so that they do not depend on how gpt train chooses them. */
static void append_slices(char text[TRAIN_PLAN_FLAGS_BYTES], const train_slices_t *slices) {
  if (!train_slices_are_cut(slices)) return;
  append_words(text, "--slices ");
  for (int i = 0; i < slices->count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, TRAIN_PLAN_FLAGS_BYTES - used, "%s%d", i > 0 ? "," : "",
             slices->lengths[i]);
  }
}

const char *train_plan_flags(const train_plan_layout_t *layout, char text[TRAIN_PLAN_FLAGS_BYTES]) {
  const train_schedule_shape_t *schedule = &layout->schedule;
  text[0] = '\0';
  append(text, "--dp", plan_size(layout, TRAIN_MESH_DP), 0);
  append(text, "--tp", plan_size(layout, TRAIN_MESH_TP), 1);
  append(text, "--cp", plan_size(layout, TRAIN_MESH_CP), 1);
  append(text, "--pp", plan_size(layout, TRAIN_MESH_PP), 1);
  append(text, "--ep", plan_size(layout, TRAIN_MESH_EP), 1);
  append(text, "--etp", layout->mesh.etp, plan_size(layout, TRAIN_MESH_TP));
  if (layout->sequence) append_words(text, "--sp");
  append(text, "--zero", layout->zero, 0);
  append(text, "--accumulate", schedule->micro_batches, 1);
  bool ulysses = layout->attention == TRAIN_CONTEXT_ULYSSES;
  if (plan_size(layout, TRAIN_MESH_CP) > 1 && ulysses) append_words(text, "--cp-kind ulysses");
  if (schedule->stages > 1) {
    append_words(text, "--schedule");
    append_words(text, train_schedule_names[schedule->kind]);
    if (train_schedule_is_asynchronous(schedule->kind)) append_words(text, "--clip-by stage");
  }
  append(text, "--virtual-stages", schedule->chunks, 1);
  append_blocks(text, layout);
  append_slices(text, &layout->slices);
  if (layout->recompute == TRAIN_RECOMPUTE_ATTENTION) append_words(text, "--recompute attention");
  if (layout->recompute == TRAIN_RECOMPUTE_BLOCK) append_words(text, "--recompute block");
  return text;
}
