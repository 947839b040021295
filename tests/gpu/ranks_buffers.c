/* Buffers of calls in plain memory, whose ends AddressSanitizer watches, and their contents. */
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define SPOILED 0xee

/* Buffers begin at any multiple of an element. */
static char *allocate(size_t elements, size_t element, uint64_t *random, char **memory) {
  size_t skew = (size_t)random_below(random, 5) * element;
  *memory = malloc(elements * element + skew + 1);
  if (*memory == NULL) abort();
  memset(*memory, SPOILED, elements * element + skew + 1);
  return *memory + skew;
}

static void set_blocks(const question_t *q, int rank, ranks_buffers_t *b) {
  b->count = q->collective == COLL_BARRIER ? 0 : q->count;
  if (q->collective != COLL_ALLTOALLV) return;
  question_layout(q, rank, b->blocks[0], b->blocks[1], b->blocks[2], b->blocks[3]);
  b->count = 0;
  for (int peer = 0; peer < q->size; peer++) {
    if (b->blocks[0][peer] > b->count) b->count = b->blocks[0][peer];
    if (b->blocks[2][peer] > b->count) b->count = b->blocks[2][peer];
  }
}

void ranks_buffers_allocate(const ranks_call_t *call, int rank, uint64_t *random,
                            ranks_buffers_t *b) {
  const question_t *q = &call->question;
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, rank), out = question_output_elements(q, rank);
  ptrdiff_t offset = 0;
  bool wants = call->place == RANKS_IN_PLACE || (call->place == RANKS_MIXED && rank % 2 == 1);
  *b = (ranks_buffers_t){.in_place = wants && question_in_place(q, rank, &offset)};
  if (b->in_place) {
    char *all = allocate(in > out ? in : out, element, random, &b->memory[0]);
    ptrdiff_t bytes = offset * (ptrdiff_t)element;
    b->input = bytes > 0 ? all + bytes : all;
    b->output = bytes > 0 ? all : all - bytes;
  } else {
    b->input = allocate(in, element, random, &b->memory[0]);
    b->output = allocate(out, element, random, &b->memory[1]);
  }
  set_blocks(q, rank, b);
}

void ranks_buffers_make(const ranks_call_t *call, int rank, uint64_t *random, ranks_buffers_t *b) {
  ranks_buffers_allocate(call, rank, random, b);
  question_fill(&call->question, rank, b->input);
}

static bool input_is_intact(const question_t *q, int rank, const ranks_buffers_t *b) {
  size_t bytes = question_input_elements(q, rank) * base_dtype_bytes(q->dtype);
  char *before = malloc(bytes + 1);
  if (before == NULL) abort();
  question_fill(q, rank, before);
  bool intact = memcmp(before, b->input, bytes) == 0;
  free(before);
  return intact;
}

bool ranks_buffers_check(const question_t *q, int rank, const ranks_buffers_t *b,
                         char text[QUESTION_TEXT_BYTES]) {
  if (!question_answered(q, rank, b->output, text)) return false;
  if (b->in_place || input_is_intact(q, rank, b)) return true;
  snprintf(text, QUESTION_TEXT_BYTES, "input was written");
  return false;
}

void ranks_buffers_free(ranks_buffers_t *b) {
  free(b->memory[0]);
  free(b->memory[1]);
  b->memory[0] = b->memory[1] = NULL;
}
