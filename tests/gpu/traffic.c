/* A rank's thread allocates the buffers of a group, launches it, checks and frees them. */
#include "gpu/traffic.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/exchange.h"
#include "verify/random.h"

#define GUARD 24 /* bytes behind a buffer that must stay */
#define SPOILED 0xa5

/* A rank's group. */
typedef struct group {
  gpu_transfer_t transfers[2 * TRAFFIC_MESSAGES_MAX];
  char *memory[2 * TRAFFIC_MESSAGES_MAX];
  int messages[2 * TRAFFIC_MESSAGES_MAX];
  int count;
} group_t;

static char byte_of(const traffic_t *traffic, int message, size_t at) {
  return (char)(traffic->seed + (uint64_t)message * 37 + at * 131 + (at >> 8));
}

static void fail(traffic_t *traffic, int rank, const char *what, int message) {
  snprintf(traffic->texts[rank], RANKS_TEXT_BYTES, "%s [rank %d, message %d, seed %d]", what, rank,
           message, (int)traffic->seed);
  gpu_store_relaxed(&traffic->ranks->abort, 1);
}

/* ---- a group --------------------------------------------------------------------------------*/

/* Buffers begin anywhere. */
static void add(const traffic_t *traffic, group_t *group, int message, bool sends,
                uint64_t *random) {
  const traffic_message_t *m = &traffic->messages[message];
  size_t skew = (size_t)random_below(random, 19);
  char *memory = malloc(skew + m->bytes + GUARD);
  if (memory == NULL) abort();
  memset(memory, SPOILED, skew + m->bytes + GUARD);
  for (size_t i = 0; sends && i < m->bytes; i++) memory[skew + i] = byte_of(traffic, message, i);
  group->memory[group->count] = memory;
  group->messages[group->count] = message;
  group->transfers[group->count] = (gpu_transfer_t){
      .peer = sends ? m->to : m->from, .sends = sends, .address = memory + skew, .bytes = m->bytes};
  group->count++;
}

/* Whether the buffer, of a send or of a receive, has the message and nothing around it. */
static bool is_right(const traffic_t *traffic, const group_t *group, int i) {
  const gpu_transfer_t *t = &group->transfers[i];
  const char *at = t->address;
  for (size_t k = 0; k < t->bytes; k++) {
    if (at[k] != byte_of(traffic, group->messages[i], k)) return false;
  }
  for (const char *before = group->memory[i]; before < at; before++) {
    if (*before != (char)SPOILED) return false;
  }
  for (size_t k = 0; k < GUARD; k++) {
    if (at[t->bytes + k] != (char)SPOILED) return false;
  }
  return true;
}

static bool launch(traffic_t *traffic, int rank, const group_t *group, uint64_t seed) {
  ranks_t *ranks = traffic->ranks;
  gpu_program_t *program;
  size_t *counts, *offsets, most = 0;
  if (gpu_bind_exchange(rank, ranks->room.size, group->transfers, group->count, &program, &counts,
                        &offsets) != COLL_OK) {
    return false;
  }
  for (int i = 0; i < group->count; i++) {
    if (group->transfers[i].bytes > most) most = group->transfers[i].bytes;
  }
  const gpu_request_t request = {.count = most,
                                 .input_blocks = {counts, offsets},
                                 .output_blocks = {counts + group->count, offsets + group->count},
                                 .dtype = COLL_UINT8};
  bool launched = ranks_launch(ranks, rank, program, &request, traffic->slices, seed);
  free(program);
  free(counts);
  return launched;
}

static bool carry_out(traffic_t *traffic, int rank, group_t *group, uint64_t *random) {
  bool good = true;
  if (group->count == 0) return true;
  if (!launch(traffic, rank, group, random_next(random))) {
    fail(traffic, rank, base_last_error(), group->messages[0]);
    good = false;
  } else if (traffic->ranks->failed[rank] != 0) {
    fail(traffic, rank, "did not end", group->messages[0]);
    good = false;
  }
  for (int i = 0; i < group->count; i++) {
    if (good && !is_right(traffic, group, i)) {
      fail(traffic, rank, "wrong bytes", group->messages[i]);
      good = false;
    }
    free(group->memory[i]);
  }
  group->count = 0;
  return good;
}

/* ---- a rank ---------------------------------------------------------------------------------*/

/* A message to itself is one of one group. */
static void run_rank(void *context, int rank) {
  traffic_t *traffic = context;
  uint64_t random = random_mix(traffic->seed + 1000 + (uint64_t)rank);
  group_t *group = calloc(1, sizeof *group);
  bool good = group != NULL;
  for (int i = 0; good && i < traffic->count; i++) {
    const traffic_message_t *m = &traffic->messages[i];
    if (m->from == rank) add(traffic, group, i, true, &random);
    if (m->to == rank) add(traffic, group, i, false, &random);
    bool ends = traffic->group_length > 0 && random_below(&random, traffic->group_length) == 0;
    if (ends) good = carry_out(traffic, rank, group, &random);
  }
  if (good) carry_out(traffic, rank, group, &random);
  free(group);
}

void traffic_check(traffic_t *traffic) {
  bool ended = ranks_run(traffic->ranks, run_rank, traffic);
  for (int rank = 0; rank < traffic->ranks->room.size; rank++) {
    const char *text = traffic->texts[rank];
    cr_assert(text[0] == '\0' || strstr(text, "did not end") != NULL, "%s", text);
  }
  cr_assert(ended, "deadlock, seed %d", (int)traffic->seed);
}

/* ---- drawing --------------------------------------------------------------------------------*/

static size_t some_bytes(uint64_t *random) {
  switch (random_below(random, 8)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return 1024; /* a slot */
    case 3: return 1025;
    case 4: return 20000 + (size_t)random_below(random, 20000);
    default: return 1 + (size_t)random_below(random, 700);
  }
}

void traffic_draw(traffic_t *traffic, uint64_t *random) {
  int size = traffic->ranks->room.size;
  traffic->count = 1 + random_below(random, TRAFFIC_MESSAGES_MAX);
  traffic->slices = 1 + random_below(random, 4);
  traffic->group_length = random_below(random, 6);
  /* Some ranks take no part. */
  int taking_part = 1 + random_below(random, size), first = random_below(random, size);
  for (int i = 0; i < traffic->count; i++) {
    traffic->messages[i] =
        (traffic_message_t){.from = (first + random_below(random, taking_part)) % size,
                            .to = (first + random_below(random, taking_part)) % size,
                            .bytes = some_bytes(random)};
  }
}
