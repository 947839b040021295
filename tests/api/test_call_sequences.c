/*
 * Sequences of calls without a pause. Each rank's buffers are in a different kind of memory, so
 * that in one call some ranks wait for an address exchange of which others already know that it
 * fails, and the latter are in the next call. Few shapes and many dtypes and ops make calls reuse
 * bound programs of calls that are only partly equal.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "verify/random.h"

enum { CALLS = 16, ROWS = 24 };

typedef struct sequence_call {
  question_t question;
  char *memory, *input, *output;
  bool is_coll;
} sequence_call_t;

/* The values that random calls take; those listed several times are more frequent. */
typedef struct mix {
  const coll_collective_t *collectives;
  const coll_dtype_t *dtypes;
  const size_t *counts;
  int collective_count, dtype_count, count_count, op_count;
} mix_t;

static const coll_collective_t many_collectives[] = {
    COLL_ALLREDUCE, COLL_ALLREDUCE, COLL_REDUCE,    COLL_REDUCE_SCATTER, COLL_ALLGATHER,
    COLL_BROADCAST, COLL_GATHER,    COLL_SCATTER,   COLL_ALLTOALL,       COLL_ALLTOALLV,
    COLL_SENDRECV,  COLL_BROADCAST, COLL_ALLREDUCE, COLL_ALLGATHERV,     COLL_REDUCE_SCATTERV,
    COLL_GATHERV,   COLL_SCATTERV};
static const coll_dtype_t many_dtypes[] = {COLL_INT32,    COLL_FLOAT32, COLL_UINT32,
                                           COLL_BFLOAT16, COLL_FLOAT16, COLL_INT64};
static const size_t many_counts[] = {3, 40, 5000, 9000}; /* half of them too large for messages */

static const mix_t many_shapes = {many_collectives,     many_dtypes, many_counts, 17, 6, 4,
                                  COLL_OP_BUILTIN_COUNT};

/* So few, and all small, that most calls differ from an earlier one only in their buffers. */
static const coll_collective_t few_collectives[] = {
    COLL_ALLREDUCE, COLL_REDUCE,     COLL_BROADCAST,      COLL_SCATTER,
    COLL_GATHER,    COLL_ALLGATHERV, COLL_REDUCE_SCATTERV};
static const size_t few_counts[] = {3, 40};
static const mix_t few_shapes = {few_collectives,      many_dtypes, few_counts, 7, 1, 2,
                                 COLL_OP_BUILTIN_COUNT};

static question_t some_question(const mix_t *mix, uint64_t *random, int size) {
  question_t q = {.collective = mix->collectives[random_below(random, mix->collective_count)],
                  .size = size,
                  .root = random_below(random, size),
                  .count = mix->counts[random_below(random, mix->count_count)],
                  .dtype = mix->dtypes[random_below(random, mix->dtype_count)],
                  .op = (coll_op_t)random_below(random, mix->op_count),
                  .seed = random_next(random)};
  if (!base_op_takes(q.op, q.dtype)) q.op = COLL_SUM;
  return q;
}

static int get_buffers(const party_rank_t *self, sequence_call_t *call, uint64_t *own) {
  const question_t *q = &call->question;
  size_t element = coll_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, self->rank) * element;
  size_t out = question_output_elements(q, self->rank) * element;
  ptrdiff_t offset = 0;
  bool in_place = random_below(own, 2) == 0 && question_in_place(q, self->rank, &offset);
  call->is_coll = random_below(own, 2) == 0;
  if (call->is_coll) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, in + out, (void **)&call->memory));
  } else {
    call->memory = malloc(in + out + 1);
    PARTY_REQUIRE(call->memory != NULL, "no memory");
  }
  call->input = call->memory;
  call->output = call->memory + in;
  if (in_place) {
    offset *= (ptrdiff_t)element;
    if (offset > 0) call->input += offset;
    call->output = call->input - offset;
  }
  question_fill(q, self->rank, call->input);
  /* Buffers that a rank does not use are ignored. */
  if (in == 0) call->input = (void *)(uintptr_t)8;
  if (out == 0) call->output = (void *)(uintptr_t)8;
  return 0;
}

static void free_buffers(sequence_call_t *call) {
  if (call->is_coll) {
    coll_mem_free(call->memory);
  } else {
    free(call->memory);
  }
}

static int run_sequence(party_rank_t *self, uint64_t *random, uint64_t *own, coll_stream_t stream) {
  sequence_call_t calls[CALLS];
  bool in_group = random_below(random, 4) == 0;
  for (int i = 0; i < CALLS; i++) {
    calls[i].question = some_question(self->context, random, self->size);
    PARTY_TRY(get_buffers(self, &calls[i], own));
  }
  if (in_group) PARTY_OK(coll_group_start());
  for (int i = 0; i < CALLS; i++) {
    PARTY_OK(party_call(self->comm, self->rank, &calls[i].question, calls[i].input, calls[i].output,
                        stream));
  }
  if (in_group) PARTY_OK(coll_group_end());
  if (stream != NULL) PARTY_OK(coll_stream_sync(stream));
  for (int i = 0; i < CALLS; i++) {
    char text[QUESTION_TEXT_BYTES], wrong[QUESTION_TEXT_BYTES];
    question_describe(&calls[i].question, text);
    PARTY_REQUIRE(question_answered(&calls[i].question, self->rank, calls[i].output, wrong),
                  "call %d, %s: %s", i, text, wrong);
    free_buffers(&calls[i]);
  }
  return 0;
}

/* run_sequence, or the same on a new communicator. */
typedef int (*sequence_runner_t)(party_rank_t *self, uint64_t *random, uint64_t *own,
                                 coll_stream_t stream);

static int run_sequences(party_rank_t *self, sequence_runner_t run) {
  uint64_t random = 7, own = 100 + (uint64_t)self->rank;
  coll_stream_t stream;
  PARTY_OK(coll_stream_create(&stream));
  for (int i = 0; i < ROWS; i++) {
    PARTY_TRY(run(self, &random, &own, i % 3 == 2 ? stream : NULL));
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

static int sequences_on_one(party_rank_t *self) {
  return run_sequences(self, run_sequence);
}

/* More ranks show a sanitizer no other code. */
enum { SIZE_MAX_OF_BUILD = HARNESS_BUILD == HARNESS_PLAIN ? 5 : 3 };

Test(call_sequence, in_all_kinds_of_memory) {
  for (int size = 2; size <= SIZE_MAX_OF_BUILD; size++)
    PARTY_RUN(size, 30000, sequences_on_one, (void *)&many_shapes);
}

Test(call_sequence, of_similar_calls) {
  for (int size = 2; size <= 5; size++)
    PARTY_RUN(size, 30000, sequences_on_one, (void *)&few_shapes);
}

/* On a communicator that has not yet found memory that cannot be mapped. */
static int run_fresh_sequence(party_rank_t *self, uint64_t *random, uint64_t *own,
                              coll_stream_t stream) {
  party_rank_t fresh = *self;
  PARTY_OK(coll_comm_split(self->comm, 0, 0, NULL, &fresh.comm));
  PARTY_TRY(run_sequence(&fresh, random, own, stream));
  PARTY_OK(coll_comm_destroy(fresh.comm));
  return 0;
}

static int fresh_sequences(party_rank_t *self) {
  return run_sequences(self, run_fresh_sequence);
}

/* For processes only: the memory of threads can always be mapped. */
Test(call_sequence, of_calls_that_exchange_addresses) {
  harness_result_t result;
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  for (int size = 2; size <= SIZE_MAX_OF_BUILD; size++) {
    cr_assert(party_processes(size, 30000, fresh_sequences, (void *)&many_shapes, &result), "%s",
              result.text);
  }
}
