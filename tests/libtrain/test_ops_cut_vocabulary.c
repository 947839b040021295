/*
 * Embedding and classifier with a cut vocabulary: the parts together give what the uncut operators
 * give. The parts of the classifier run in threads of their own, which gather as ranks do.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "op_parts.h"

#define PARTS_MAX 4

/* ---- embedding ---- */

#define TOKENS 53
#define SEQUENCES 3
#define LENGTH 8
#define CONTEXT 40
#define WIDTH 70

/* Two segments of 4 positions, at 8 and at 28. */
static const train_batch_t batch = {
    .sequences = SEQUENCES, .length = LENGTH, .first = 8, .gap = 16};

/* What a pass over all parts gives. */
typedef struct embedded {
  void *out;
  float *d_tokens, *d_positions;
} embedded_t;

static const size_t outs = (size_t)SEQUENCES * LENGTH * WIDTH, table = (size_t)TOKENS * WIDTH,
                    positions = (size_t)CONTEXT * WIDTH;

/* Part `index` as ranks have them: each has ceil(tokens / parts) tokens, the last ones fewer. */
static train_vocabulary_t vocabulary_of(int tokens, int parts, int index) {
  int size = (tokens + parts - 1) / parts, first = size * index < tokens ? size * index : tokens;
  return (train_vocabulary_t){first, size < tokens - first ? size : tokens - first};
}

static embedded_t embed(const train_exec_t *exec, int parts) {
  train_dtype_t dtype = exec->dtype;
  void *tokens_table = parts_random(dtype, 1, 1, table), *part_out = malloc(outs * sizeof(float));
  void *position_table = parts_random(dtype, 2, 1, positions);
  void *d_out = parts_random(dtype, 3, 1, outs);
  int32_t tokens[SEQUENCES * LENGTH];
  float *sum = calloc(outs, sizeof *sum);
  const embedded_t e = {malloc(outs * sizeof(float)), calloc(table, sizeof(float)),
                        malloc(positions * sizeof(float))};
  memset(e.d_positions, 0xff, positions * sizeof(float));
  for (int i = 0; i < SEQUENCES * LENGTH; i++) tokens[i] = (i * i * 5 + 52) % TOKENS;
  for (int i = 0; i < parts; i++) {
    const train_vocabulary_t own = vocabulary_of(TOKENS, parts, i);
    size_t first = (size_t)own.first * WIDTH;
    train_ops_host.embedding_forward(exec, &batch, tokens, own,
                                     train_dtype_at(dtype, tokens_table, first),
                                     i == parts - 1 ? position_table : NULL, WIDTH, part_out);
    parts_add(dtype, part_out, outs, sum);
    train_ops_host.embedding_backward(exec, &batch, tokens, own, d_out, WIDTH, CONTEXT, true,
                                      e.d_tokens + first, i == 0 ? e.d_positions : NULL);
  }
  train_dtype_narrow(dtype, sum, outs, e.out);
  free(tokens_table), free(part_out), free(position_table), free(d_out), free(sum);
  return e;
}

static void free_embedded(embedded_t *e) {
  free(e->out), free(e->d_tokens), free(e->d_positions);
}

Test(ops, embedding_of_a_cut_vocabulary) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    const train_exec_t *exec = op_exec_with(NULL, (train_dtype_t)dtype);
    embedded_t whole = embed(exec, 1);
    for (int parts = 2; parts <= PARTS_MAX; parts++) {
      embedded_t cut = embed(exec, parts);
      cr_assert_arr_eq(cut.out, whole.out, outs * train_dtype_bytes(exec->dtype));
      cr_assert_arr_eq(cut.d_tokens, whole.d_tokens, table * sizeof(float));
      cr_assert_arr_eq(cut.d_positions, whole.d_positions, positions * sizeof(float));
      free_embedded(&cut);
    }
    free_embedded(&whole);
  }
}

Test(ops, embedding_of_two_segments) {
  const int32_t tokens[] = {0, 0, 0, 0, 0, 0};
  const train_batch_t segments = {.sequences = 1, .length = 6, .first = 3, .gap = 10};
  const float expected[] = {3, 4, 5, 16, 17, 18}, zero[] = {0};
  float position_table[20], out[6], d_positions[20], d_token[1] = {0};
  for (int i = 0; i < 20; i++) position_table[i] = (float)i;
  const train_vocabulary_t vocabulary = {.count = 1};
  train_ops_host.embedding_forward(op_exec(NULL), &segments, tokens, vocabulary, zero,
                                   position_table, 1, out);
  cr_assert_arr_eq(out, expected, sizeof expected);
  train_ops_host.embedding_backward(op_exec(NULL), &segments, tokens, vocabulary, expected, 1, 20,
                                    true, d_token, d_positions);
  for (int i = 0; i < 20; i++) {
    bool inside = (i >= 3 && i < 6) || (i >= 16 && i < 19);
    cr_assert_eq(d_positions[i], inside ? (float)i : 0);
  }
}

/* ---- classifier ---- */

/* The parts' threads meet in allgather. */
typedef struct gathering {
  pthread_barrier_t barrier;
  int parts;
  const float *own[PARTS_MAX];
} gathering_t;

typedef struct classifier_part {
  gathering_t *gathering; /* NULL: not cut */
  train_dtype_t dtype;
  int index, rows, width;
  train_vocabulary_t classes;
  const void *in, *table;
  const int32_t *targets;
  void *d_in;
  float *d_table;
  double loss, loss_only; /* with and without gradients */
  bool guards_intact;
} classifier_part_t;

static void allgather(void *context, const float *own, float *all, size_t floats) {
  const classifier_part_t *part = context;
  gathering_t *g = part->gathering;
  g->own[part->index] = own;
  pthread_barrier_wait(&g->barrier);
  for (int i = 0; i < g->parts; i++) {
    memcpy(all + (size_t)i * floats, g->own[i], floats * sizeof *all);
  }
  pthread_barrier_wait(&g->barrier);
}

static void classify(const train_exec_t *exec, classifier_part_t *p) {
  train_parts_t cut = {.allgather = allgather, .context = p}, *parts = NULL;
  if (p->gathering != NULL) {
    cut.count = p->gathering->parts;
    parts = &cut;
  }
  p->loss = train_ops_host.classifier(exec, p->in, p->table, p->targets, p->rows, p->width,
                                      p->classes, parts, 0.5f, true, p->d_in, p->d_table);
  p->loss_only = train_ops_host.classifier(exec, p->in, p->table, p->targets, p->rows, p->width,
                                           p->classes, parts, 0, false, NULL, NULL);
}

/* Calls the classifier with scratch of exactly the size that it asks for, followed by guards. */
static void *run_part(void *argument) {
  enum { GUARDS = 64 };
  classifier_part_t *p = argument;
  const train_ops_sizes_t sizes = {
      .rows = p->rows,
      .length = 1,
      .head_width = 1,
      .width = p->width,
      .vocabulary = p->classes.count,
      .threads = 1,
      .vocabulary_parts = p->gathering != NULL ? p->gathering->parts : 0,
      .dtype = p->dtype,
      .training = true};
  size_t needed = train_ops_host.scratch_floats(&sizes);
  train_exec_t exec = {.dtype = p->dtype, .scratch = malloc((needed + GUARDS) * sizeof(float))};
  memset(exec.scratch, 0xff, (needed + GUARDS) * sizeof(float));
  if (train_gemm_create(NULL, &exec.gemm) != COLL_OK) abort();
  classify(&exec, p);
  p->guards_intact = true;
  for (size_t i = 0; i < GUARDS; i++) p->guards_intact &= isnan(exec.scratch[needed + i]) != 0;
  train_gemm_destroy(exec.gemm);
  free(exec.scratch);
  return NULL;
}

/* Classes `part` of a classifier whose arrays are `whole`'s. */
static classifier_part_t part_of_classifier(const classifier_part_t *whole, gathering_t *gathering,
                                            int index, float *d_table) {
  classifier_part_t part = *whole;
  part.gathering = gathering;
  part.index = index;
  part.classes = vocabulary_of(whole->classes.count, gathering->parts, index);
  size_t first = (size_t)part.classes.first * (size_t)whole->width;
  part.table = train_dtype_const_at(whole->dtype, whole->table, first);
  part.d_in = malloc((size_t)(whole->rows * whole->width) * sizeof(float));
  part.d_table = d_table + first;
  return part;
}

static void check_part(const classifier_part_t *part, const classifier_part_t *whole) {
  cr_assert_float_eq(part->loss, whole->loss, 1e-6 * whole->loss);
  cr_assert_eq(part->loss, part->loss_only);
  cr_assert(part->guards_intact);
}

static void check_cut(const classifier_part_t *whole, int count) {
  classifier_part_t parts[PARTS_MAX];
  pthread_t threads[PARTS_MAX];
  gathering_t gathering = {.parts = count};
  size_t ins = (size_t)(whole->rows * whole->width);
  size_t weights = (size_t)(whole->classes.count * whole->width);
  float *d_in = calloc(ins, sizeof *d_in), *d_table = malloc(weights * sizeof *d_table);
  pthread_barrier_init(&gathering.barrier, NULL, (unsigned)count);
  for (int i = 0; i < count; i++) {
    parts[i] = part_of_classifier(whole, &gathering, i, d_table);
    cr_assert_eq(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < count; i++) {
    check_part(&parts[i], whole);
    cr_assert_eq(parts[i].loss, parts[0].loss, "the parts differ in their loss");
    parts_add(whole->dtype, parts[i].d_in, ins, d_in);
    free(parts[i].d_in);
  }
  train_dtype_narrow(whole->dtype, d_in, ins, d_in);
  parts_check("d_in", whole->dtype, 2, d_in, whole->d_in, ins);
  parts_check_floats("d_table", whole->dtype, 1, d_table, whole->d_table, weights);
  pthread_barrier_destroy(&gathering.barrier);
  free(d_in), free(d_table);
}

static void check_classifier(train_dtype_t dtype, int rows, int width, int classes) {
  size_t ins = (size_t)(rows * width), weights = (size_t)(classes * width);
  int32_t targets[600];
  classifier_part_t whole = {.dtype = dtype,
                             .rows = rows,
                             .width = width,
                             .classes = {.count = classes},
                             .in = parts_random(dtype, 1, 1, ins),
                             .table = parts_random(dtype, 2, 1, weights),
                             .targets = targets,
                             .d_in = malloc(ins * sizeof(float)),
                             .d_table = malloc(weights * sizeof(float))};
  for (int i = 0; i < rows; i++) targets[i] = (int32_t)(i * 977L % classes);
  targets[rows - 1] = classes - 1;
  run_part(&whole);
  for (int count = 1; count <= PARTS_MAX; count++) check_cut(&whole, count);
  free((void *)whole.in), free((void *)whole.table), free(whole.d_in), free(whole.d_table);
}

/* More than one block of rows and of classes; odd numbers of classes; with 5 classes the last of 4
 * parts has none. */
Test(classifier, of_a_cut_vocabulary) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    check_classifier((train_dtype_t)dtype, 10, 6, 5);
    check_classifier((train_dtype_t)dtype, 530, 9, 1101);
    check_classifier((train_dtype_t)dtype, 3, 5, 16385);
  }
}
