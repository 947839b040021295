/*
 * Rank 0 passes the unique id to the other processes through the harness's board.
 */
#include "harness/party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN_BYTES 64
#define MARGIN 0xa5
#define SPOILED 0xee

typedef struct plan_of_run {
  party_body_t body;
  void *context;
  coll_comm_t *comms; /* threads only */
} plan_of_run_t;

static int finish_rank(party_rank_t *self, int code) {
  if (self->comm == NULL) return code;
  coll_status_t status = coll_comm_destroy(self->comm);
  if (code == 0 && status != COLL_OK) return harness_fail("destroy: %s", coll_last_error(NULL));
  return code;
}

static int process_body(int rank, int size, void *context) {
  const plan_of_run_t *run = context;
  coll_unique_id_t *id = harness_board();
  party_rank_t self = {.rank = rank, .size = size, .context = run->context};
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, NULL, &self.comm));
  return finish_rank(&self, run->body(&self));
}

static int thread_body(int rank, int size, void *context) {
  const plan_of_run_t *run = context;
  party_rank_t self = {
      .comm = run->comms[rank], .rank = rank, .size = size, .context = run->context};
  return finish_rank(&self, run->body(&self));
}

bool party_processes(int size, int timeout_ms, party_body_t body, void *context,
                     harness_result_t *result) {
  plan_of_run_t run = {.body = body, .context = context};
  return harness_run(size, timeout_ms, process_body, &run, result);
}

bool party_threads(int size, int timeout_ms, party_body_t body, void *context,
                   harness_result_t *result) {
  coll_comm_t comms[HARNESS_RANKS_MAX];
  plan_of_run_t run = {.body = body, .context = context, .comms = comms};
  if (coll_comm_create_local(size, NULL, comms) != COLL_OK) abort();
  return harness_run_threads(size, timeout_ms, thread_body, &run, result);
}

bool party_has_named_memory(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
    found = strstr(line, "/dev/shm/") != NULL && strstr(line, "/dev/shm/bxf") == NULL;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

/* ---- questions ------------------------------------------------------------------------------*/

coll_status_t party_call(coll_comm_t comm, int rank, const question_t *q, const void *in, void *out,
                         coll_stream_t stream) {
  size_t counts[4][QUESTION_RANKS_MAX];
  size_t n = q->count;
  switch (q->collective) {
    case COLL_ALLREDUCE: return coll_allreduce(in, out, n, q->dtype, q->op, comm, stream);
    case COLL_REDUCE: return coll_reduce(in, out, n, q->dtype, q->op, q->root, comm, stream);
    case COLL_REDUCE_SCATTER: return coll_reduce_scatter(in, out, n, q->dtype, q->op, comm, stream);
    case COLL_ALLGATHER: return coll_allgather(in, out, n, q->dtype, comm, stream);
    case COLL_BROADCAST: return coll_broadcast(in, out, n, q->dtype, q->root, comm, stream);
    case COLL_GATHER: return coll_gather(in, out, n, q->dtype, q->root, comm, stream);
    case COLL_SCATTER: return coll_scatter(in, out, n, q->dtype, q->root, comm, stream);
    case COLL_ALLTOALL: return coll_alltoall(in, out, n, q->dtype, comm, stream);
    case COLL_BARRIER: return coll_barrier(comm, stream);
    case COLL_ALLTOALLV:
      question_layout(q, rank, counts[0], counts[1], counts[2], counts[3]);
      return coll_alltoallv(in, counts[0], counts[1], out, counts[2], counts[3], q->dtype, comm,
                            stream);
    case COLL_ALLGATHERV:
      question_layout(q, rank, counts[0], counts[1], counts[2], counts[3]);
      return coll_allgatherv(in, out, counts[2], counts[3], q->dtype, comm, stream);
    case COLL_REDUCE_SCATTERV:
      question_layout(q, rank, counts[0], counts[1], counts[2], counts[3]);
      return coll_reduce_scatterv(in, out, counts[0], q->dtype, q->op, comm, stream);
    case COLL_GATHERV:
      question_layout(q, rank, counts[0], counts[1], counts[2], counts[3]);
      return coll_gatherv(in, question_rank_count(q, rank), out, counts[2], counts[3], q->dtype,
                          q->root, comm, stream);
    case COLL_SCATTERV:
      question_layout(q, rank, counts[0], counts[1], counts[2], counts[3]);
      return coll_scatterv(in, counts[0], counts[1], out, question_rank_count(q, rank), q->dtype,
                           q->root, comm, stream);
    default: break;
  }
  coll_group_start();
  coll_send(in, n, q->dtype, (rank + 1) % q->size, comm, stream);
  coll_recv(out, n, q->dtype, (rank + q->size - 1) % q->size, comm, stream);
  return coll_group_end();
}

/* One allocation holds input and output, at unaligned positions, with a margin around each. */
typedef struct arena {
  char *base, *input, *output;
  size_t bytes, in, out;
  bool is_coll; /* of coll_mem_alloc */
} arena_t;

static int make_arena(const party_rank_t *self, const question_t *q, const party_style_t *style,
                      arena_t *arena) {
  size_t element = coll_dtype_bytes(q->dtype);
  ptrdiff_t offset = 0;
  *arena = (arena_t){.in = question_input_elements(q, self->rank) * element,
                     .out = question_output_elements(q, self->rank) * element,
                     .is_coll = style->coll_memory || style->gpus > 0};
  size_t skew = q->seed % 4 * element;
  bool in_place = style->in_place && question_in_place(q, self->rank, &offset);
  arena->bytes = arena->in + arena->out + 3 * MARGIN_BYTES + skew;
  if (style->memory != NULL) {
    PARTY_REQUIRE(arena->bytes <= style->memory_bytes, "a call needs %zu bytes", arena->bytes);
    arena->base = style->memory;
  } else if (style->gpus > 0) {
    int device = self->rank % style->gpus;
    PARTY_OK(coll_mem_alloc(device, arena->bytes, (void **)&arena->base));
  } else if (arena->is_coll) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, arena->bytes, (void **)&arena->base));
  } else {
    arena->base = malloc(arena->bytes);
    if (arena->base == NULL) abort();
  }
  memset(arena->base, MARGIN, arena->bytes);
  arena->input = arena->base + MARGIN_BYTES + skew;
  arena->output = arena->input + arena->in + MARGIN_BYTES;
  if (in_place) {
    ptrdiff_t bytes = offset * (ptrdiff_t)element;
    if (bytes > 0) arena->input += bytes;
    arena->output = arena->input - bytes;
  }
  question_fill(q, self->rank, arena->input);
  return 0;
}

static bool within(const char *at, const char *base, size_t bytes) {
  return at >= base && at < base + bytes;
}

static bool unspoiled(const arena_t *arena, const char *before) {
  const char *end = arena->base + arena->bytes, *at = arena->base;
  while (at < end) {
    if (within(at, arena->output, arena->out)) {
      at = arena->output + arena->out;
    } else if (within(at, arena->input, arena->in)) {
      const char *stop = arena->input + arena->in;
      if (arena->out > 0 && within(arena->output, at, (size_t)(stop - at))) stop = arena->output;
      if (memcmp(at, before + (at - arena->input), (size_t)(stop - at)) != 0) return false;
      at = stop;
    } else if ((unsigned char)*at++ != MARGIN) {
      return false;
    }
  }
  return true;
}

static int check_arena(const party_rank_t *self, const question_t *q, const party_style_t *style,
                       const arena_t *arena) {
  char call[QUESTION_TEXT_BYTES], wrong[QUESTION_TEXT_BYTES];
  char *before = malloc(arena->in + 1);
  if (before == NULL) abort();
  question_describe(q, call);
  question_fill(q, self->rank, before);
  bool whole = unspoiled(arena, before);
  free(before);
  const char *algo = coll_comm_algo_used(self->comm, q->collective);
  if (!question_answered(q, self->rank, arena->output, wrong)) {
    return harness_fail("%s by %s, in place %d, coll memory %d: %s", call, algo, style->in_place,
                        style->coll_memory, wrong);
  }
  PARTY_REQUIRE(whole, "%s by %s, in place %d: memory beside the output was written", call, algo,
                style->in_place);
  return 0;
}

int party_ask(party_rank_t *self, const question_t *q, const party_style_t *style) {
  arena_t arena;
  char call[QUESTION_TEXT_BYTES];
  PARTY_TRY(make_arena(self, q, style, &arena));
  coll_status_t status =
      party_call(self->comm, self->rank, q, arena.input, arena.output, style->stream);
  if (status == COLL_OK && style->stream != NULL) status = coll_stream_sync(style->stream);
  int code = 0;
  if (status != COLL_OK) {
    question_describe(q, call);
    code = harness_fail("%s: %s", call, coll_last_error(NULL));
  } else {
    code = check_arena(self, q, style, &arena);
  }
  memset(arena.base, SPOILED,
         arena.bytes); /* so that a peer that still reads here gets wrong data */
  if (style->memory != NULL) return code;
  if (arena.is_coll) {
    coll_mem_free(arena.base);
  } else {
    free(arena.base);
  }
  return code;
}
