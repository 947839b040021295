/*
 * The parity matrix: every axis of parallelism alone, all pairs of them and triples, on 4 and 8
 * ranks, train as one rank does. The last test proves that no pair is missing.
 */
#include <criterion/criterion.h>

#include "libtrain/layouts/compare.h"

#define SP .sequence_parallel = true
#define ULYSSES .context_kind = TRAIN_CONTEXT_ULYSSES
#define PIPELINE_1F1B(stages) .pp = (stages), .schedule = TRAIN_SCHEDULE_1F1B
#define GPIPE(stages) .pp = (stages), .schedule = TRAIN_SCHEDULE_GPIPE
#define ZB_H1(stages) .pp = (stages), .schedule = TRAIN_SCHEDULE_ZB_H1
#define INTERLEAVED(stages) .pp = (stages), .chunks = 2, .schedule = TRAIN_SCHEDULE_INTERLEAVED
#define TERAPIPE(stages, ...) \
  .pp = (stages), .schedule = TRAIN_SCHEDULE_TERAPIPE, .slices = {__VA_ARGS__}
#define BATCHES(count) .micro_batches = (count)

/* ---- single axes ---- */

static const layout_trial_t data[] = {
    {.dp = 4, BATCHES(4)},
    {.dp = 4, .zero = 1, BATCHES(2)},
    {.dp = 4, .zero = 2, BATCHES(2)},
    {.dp = 4, .zero = 3, BATCHES(2)},
};

static const layout_trial_t tensor[] = {
    {.tp = 4, BATCHES(4)},
    {.tp = 4, SP, BATCHES(2)},
};

static const layout_trial_t context[] = {
    {.cp = 4, BATCHES(2)},
    {.cp = 4, ULYSSES, BATCHES(2)},
};

static const layout_trial_t pipeline[] = {
    {PIPELINE_1F1B(4), BATCHES(4)}, {PIPELINE_1F1B(4), BATCHES(8)},
    {GPIPE(4), BATCHES(8)},         {INTERLEAVED(2), BATCHES(4)},
    {ZB_H1(4), BATCHES(8)},         {.pp = 2, BATCHES(4)}, /* naive */
};

static const layout_trial_t slices[] = {
    {TERAPIPE(4, 4, {8, 8, 8, 8}), BATCHES(4)},
    {TERAPIPE(2, 3, {17, 10, 5}), BATCHES(2)},
    {TERAPIPE(4, 5, {1, 12, 11, 1, 7}), BATCHES(16)},
};

static const layout_trial_t experts[] = {
    {.dp = 4, .ep = 4, BATCHES(2)},
};

/* ---- pairs ---- */

static const layout_trial_t data_tensor[] = {
    {.dp = 2, .tp = 2, BATCHES(2)},
    {.dp = 4, .tp = 2, .zero = 1, BATCHES(2)},
    {.dp = 2, .tp = 2, .zero = 2, BATCHES(2)},
    {.dp = 2, .tp = 2, .zero = 3, BATCHES(2)},
};

static const layout_trial_t data_sequence[] = {
    {.dp = 2, .tp = 4, SP, BATCHES(2)},
    {.dp = 2, .tp = 2, SP, .zero = 1, BATCHES(4)},
    {.dp = 2, .tp = 2, SP, .zero = 2, BATCHES(2)},
    {.dp = 2, .tp = 2, SP, .zero = 3, BATCHES(2)},
};

static const layout_trial_t data_ring[] = {
    {.dp = 2, .cp = 2, BATCHES(2)},
    {.dp = 4, .cp = 2, .zero = 1, BATCHES(2)},
    {.dp = 2, .cp = 2, .zero = 2, BATCHES(2)},
    {.dp = 2, .cp = 2, .zero = 3, BATCHES(2)},
};

static const layout_trial_t data_ulysses[] = {
    {.dp = 4, .cp = 2, ULYSSES, BATCHES(2)},
    {.dp = 2, .cp = 2, ULYSSES, .zero = 1, BATCHES(2)},
    {.dp = 2, .cp = 2, ULYSSES, .zero = 2, BATCHES(2)},
    {.dp = 2, .cp = 2, ULYSSES, .zero = 3, BATCHES(2)},
};

/* With ZeRO 2 and 3 `gpt train` refuses pipelines: layouts.sh. */
static const layout_trial_t data_pipeline[] = {
    {.dp = 2, PIPELINE_1F1B(2), BATCHES(4)},
    {.dp = 4, GPIPE(2), BATCHES(4)},
    {.dp = 2, INTERLEAVED(2), .zero = 1, BATCHES(4)},
    {.dp = 2, ZB_H1(4), .zero = 1, BATCHES(4)},
    {.dp = 2, TERAPIPE(2, 4, {12, 8, 7, 5}), .zero = 1, BATCHES(4)},
};

static const layout_trial_t tensor_context[] = {
    {.tp = 2, .cp = 2, BATCHES(2)},
    {.tp = 2, .cp = 4, SP, BATCHES(2)},
    {.tp = 2, .cp = 2, ULYSSES, BATCHES(4)},
    {.tp = 2, .cp = 2, ULYSSES, SP, BATCHES(2)},
};

static const layout_trial_t tensor_pipeline[] = {
    {.tp = 2, PIPELINE_1F1B(2), BATCHES(4)},
    {.tp = 4, GPIPE(2), BATCHES(4)},
    {.tp = 2, ZB_H1(2), BATCHES(4)},
    {.tp = 2, SP, INTERLEAVED(2), BATCHES(4)},
    {.tp = 2, SP, ZB_H1(4), BATCHES(2)},
    {.tp = 2, TERAPIPE(2, 3, {13, 11, 8}), BATCHES(2)},
    {.tp = 2, SP, TERAPIPE(2, 3, {14, 10, 8}), BATCHES(2)},
};

static const layout_trial_t context_pipeline[] = {
    {.cp = 2, PIPELINE_1F1B(2), BATCHES(4)},
    {.cp = 4, ZB_H1(2), BATCHES(4)},
    {.cp = 2, ULYSSES, INTERLEAVED(2), BATCHES(4)},
    {.cp = 2, ULYSSES, GPIPE(4), BATCHES(4)},
};

/* Experts are divided over data or context ranks. */
static const layout_trial_t experts_data[] = {
    {.ep = 2, .dp = 4, BATCHES(2)},
    {.ep = 2, .dp = 4, .zero = 1, BATCHES(2)},
    {.ep = 4, .dp = 4, .zero = 2, BATCHES(2)},
    {.ep = 2, .dp = 4, .zero = 3, BATCHES(2)},
};

static const layout_trial_t experts_others[] = {
    {.ep = 2, .dp = 2, .tp = 2, BATCHES(2)},
    {.ep = 4, .dp = 4, .tp = 2, SP, BATCHES(2)},
    {.ep = 2, .dp = 2, .tp = 2, SP, .tensor_overlap = 2, BATCHES(2)},
    {.ep = 2, .cp = 2, .dp = 2, BATCHES(2)},
    {.ep = 4, .cp = 4, BATCHES(2)},
    {.ep = 4, .cp = 2, .dp = 2, ULYSSES, BATCHES(2)},
    {.ep = 2, .dp = 2, PIPELINE_1F1B(2), BATCHES(4)},
    {.ep = 2, .dp = 2, ZB_H1(4), BATCHES(4)},
};

/* ---- triples ---- */

static const layout_trial_t triples[] = {
    {.dp = 2, .tp = 2, PIPELINE_1F1B(2), .zero = 1, BATCHES(4)},
    {.dp = 2, .tp = 2, SP, INTERLEAVED(2), BATCHES(4)},
    {.dp = 2, .cp = 2, ZB_H1(2), BATCHES(4)},
    {.dp = 2, .cp = 2, ULYSSES, GPIPE(2), .zero = 1, BATCHES(2)},
    {.dp = 2, .tp = 2, SP, TERAPIPE(2, 3, {14, 10, 8}), .zero = 1, BATCHES(2)},
};

static const layout_trial_t more_triples[] = {
    {.dp = 2, .tp = 2, SP, .cp = 2, .zero = 3, BATCHES(2)},
    {.dp = 2, .tp = 2, .cp = 2, ULYSSES, .zero = 2, BATCHES(2)},
    {.tp = 2, .cp = 2, INTERLEAVED(2), BATCHES(4)},
    {.tp = 2, SP, .cp = 2, ULYSSES, ZB_H1(2), BATCHES(4)},
};

static const layout_trial_t experts_triples[] = {
    {.ep = 2, .dp = 2, .tp = 2, .zero = 1, BATCHES(2)},
    {.ep = 2, .cp = 2, .tp = 2, SP, BATCHES(2)},
    {.ep = 2, .cp = 2, ULYSSES, GPIPE(2), BATCHES(4)},
    {.ep = 2, .dp = 2, .tp = 2, SP, PIPELINE_1F1B(2), BATCHES(4)},
    {.ep = 4, .cp = 2, .dp = 2, .zero = 3, BATCHES(2)},
};

/* ---- the tests ---- */

typedef struct section {
  const train_model_config_t *config; /* NULL: without experts */
  const layout_trial_t *trials;
  size_t count;
} section_t;

#define SECTION(config, trials) \
  { config, trials, sizeof(trials) / sizeof(trials)[0] }

static const section_t sections[] = {
    SECTION(NULL, data),
    SECTION(NULL, tensor),
    SECTION(NULL, context),
    SECTION(NULL, pipeline),
    SECTION(NULL, slices),
    SECTION(&layout_two_of_eight, experts),
    SECTION(NULL, data_tensor),
    SECTION(NULL, data_sequence),
    SECTION(NULL, data_ring),
    SECTION(NULL, data_ulysses),
    SECTION(NULL, data_pipeline),
    SECTION(NULL, tensor_context),
    SECTION(NULL, tensor_pipeline),
    SECTION(NULL, context_pipeline),
    SECTION(&layout_two_of_eight, experts_data),
    SECTION(&layout_two_of_eight, experts_others),
    SECTION(NULL, triples),
    SECTION(NULL, more_triples),
    SECTION(&layout_two_of_eight, experts_triples),
};
#define SECTION_COUNT (sizeof sections / sizeof sections[0])

/* Trains the section of these trials. */
static void check(const layout_trial_t *trials) {
  for (size_t i = 0; i < SECTION_COUNT; i++) {
    const section_t *section = &sections[i];
    if (section->trials == trials) {
      layout_compare_all(section->config, section->trials, section->count);
    }
  }
}

#define CHECK(trials)    \
  Test(matrix, trials) { \
    check(trials);       \
  }

CHECK(data)
CHECK(tensor)
CHECK(context)
CHECK(pipeline)
CHECK(slices)
CHECK(experts)
CHECK(data_tensor)
CHECK(data_sequence)
CHECK(data_ring)
CHECK(data_ulysses)
CHECK(data_pipeline)
CHECK(tensor_context)
CHECK(tensor_pipeline)
CHECK(context_pipeline)
CHECK(experts_data)
CHECK(experts_others)
CHECK(triples)
CHECK(more_triples)
CHECK(experts_triples)

/* ---- what the matrix has ---- */

typedef enum axis {
  AXIS_DATA,
  AXIS_ZERO_1,
  AXIS_ZERO_2,
  AXIS_ZERO_3,
  AXIS_TENSOR,
  AXIS_SEQUENCE,
  AXIS_RING,
  AXIS_ULYSSES,
  AXIS_PIPELINE,
  AXIS_EXPERTS,
  AXES
} axis_t;

static const char *const names[AXES] = {"data",     "ZeRO 1", "ZeRO 2",  "ZeRO 3",   "tensor",
                                        "sequence", "ring",   "Ulysses", "pipeline", "experts"};

/* Axes of a kind are alternatives. */
static const int kinds[AXES] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 4};

/* The set of a trial's axes. Data ranks among all of which experts are divided are no axis beside
 * them. */
static unsigned axes_of(const layout_trial_t *trial) {
  int divided = (trial->cp > 1 ? trial->cp : 1) * (trial->dp > 1 ? trial->dp : 1);
  bool alike = trial->ep < divided && trial->dp > 1; /* data ranks with the same experts */
  unsigned axes = 0;
  if (trial->zero > 0 || alike) axes |= 1u << (AXIS_DATA + trial->zero);
  if (trial->tp > 1) axes |= 1u << (trial->sequence_parallel ? AXIS_SEQUENCE : AXIS_TENSOR);
  if (trial->cp > 1) axes |= 1u << (AXIS_RING + (int)trial->context_kind);
  if (trial->pp > 1) axes |= 1u << AXIS_PIPELINE;
  if (trial->ep > 1) axes |= 1u << AXIS_EXPERTS;
  return axes;
}

static int ranks_of(const layout_trial_t *trial) {
  const int sizes[] = {trial->dp, trial->tp, trial->cp, trial->pp};
  int ranks = 1;
  for (int i = 0; i < 4; i++) ranks *= sizes[i] > 1 ? sizes[i] : 1;
  return ranks;
}

/* How many layouts have these axes and no others. */
static int count_layouts(unsigned axes) {
  int count = 0;
  for (size_t i = 0; i < SECTION_COUNT; i++) {
    for (size_t j = 0; j < sections[i].count; j++) count += axes_of(&sections[i].trials[j]) == axes;
  }
  return count;
}

static bool is_refused(int a, int b) {
  return (a == AXIS_ZERO_2 || a == AXIS_ZERO_3) && b == AXIS_PIPELINE;
}

Test(matrix, has_every_axis_and_every_pair) {
  for (int a = 0; a < AXES; a++) {
    cr_expect(count_layouts(1u << a) > 0, "%s alone is missing", names[a]);
    for (int b = a + 1; b < AXES; b++) {
      bool legal = kinds[a] != kinds[b] && !is_refused(a, b);
      int count = count_layouts(1u << a | 1u << b);
      cr_expect(legal ? count > 0 : count == 0, "%d layouts with %s and %s", count, names[a],
                names[b]);
    }
  }
}

Test(matrix, has_triples_on_4_and_8_ranks) {
  int on_4 = 0, on_8 = 0;
  for (size_t i = 0; i < SECTION_COUNT; i++) {
    for (size_t j = 0; j < sections[i].count; j++) {
      const layout_trial_t *trial = &sections[i].trials[j];
      cr_expect(trial->micro_batches > 1);
      if (__builtin_popcount(axes_of(trial)) < 3) continue;
      on_4 += ranks_of(trial) == 4;
      on_8 += ranks_of(trial) == 8;
    }
  }
  cr_expect(on_4 > 0 && on_8 > 0 && on_4 + on_8 >= 12, "%d and %d triples", on_4, on_8);
}
