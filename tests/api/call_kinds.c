/*
 * Every rank's input is a small number that encodes the rank, and the destination where the input
 * has a block per rank. Outputs are then one number per block, which follows from the definition of
 * the verb, so three elements of each block are checked.
 */
#include "call_kinds.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 300000        /* elements; more bytes than a send may leave unreceived */
#define CHECKED_MAX 1000000 /* elements of a call whose buffers are filled and checked */
#define UNEVEN_STRIDE 8     /* elements between the starts of blocks of different sizes */
#define ALLTOALLV_SELF_COUNT 2
#define BUFFER_BYTES ((size_t)1 << 21)
#define BLOCK_FACTOR 8 /* input of rank r for rank j: r + 1 + BLOCK_FACTOR * j */
#define PREMUL_SCALAR 2

/* ---- the kinds ------------------------------------------------------------------------------*/

#define REDUCING(v, t, o, n) .verb = v, .dtype = t, .op = o, .count = n
#define ROOTED(v, t, n, r) .verb = v, .dtype = t, .count = n, .root = r
#define PLAIN(v, t, n) .verb = v, .dtype = t, .count = n
#define ALLREDUCE_SUM(n) REDUCING(COLL_ALLREDUCE, COLL_FLOAT32, COLL_SUM, n)
#define ALLTOALLV(sent, expected) \
  .verb = COLL_ALLTOALLV, .dtype = COLL_INT32, .count = sent, .recv_count = expected

#define VECTOR(v, t, n, s) .verb = v, .dtype = t, .count = n, .step = s
#define VECTOR_ROOTED(v, t, n, r) .verb = v, .dtype = t, .count = n, .step = 1, .root = r

#define ONE(title, ...) \
  {                     \
    title, 1, false, {  \
      { __VA_ARGS__ }   \
    }                   \
  }

static const call_kind_t kinds[] = {
    {.name = "nothing at all"},
    ONE("barrier", .verb = COLL_BARRIER),
    ONE("allreduce of 0", ALLREDUCE_SUM(0)),
    ONE("allreduce of 1", ALLREDUCE_SUM(1)),
    ONE("allreduce of 5", ALLREDUCE_SUM(5)),
    ONE("allreduce of 6", ALLREDUCE_SUM(6)),
    ONE("allreduce of 5, max", REDUCING(COLL_ALLREDUCE, COLL_FLOAT32, COLL_MAX, 5)),
    ONE("allreduce of 5, int32", REDUCING(COLL_ALLREDUCE, COLL_INT32, COLL_SUM, 5)),
    ONE("allreduce of 5, premul-sum", REDUCING(COLL_ALLREDUCE, COLL_FLOAT32, CALL_PREMUL_SUM, 5)),
    ONE("allreduce of 5, butterfly", ALLREDUCE_SUM(5), .algo = "butterfly"),
    ONE("allreduce of 5, tree", ALLREDUCE_SUM(5), .algo = "tree"),
    ONE("allreduce, large", ALLREDUCE_SUM(LARGE)),
    ONE("allreduce, large, mapped", ALLREDUCE_SUM(LARGE), .mapped = true),
    ONE("allreduce, larger, mapped", ALLREDUCE_SUM(LARGE + 1), .mapped = true),
    ONE("reduce of 5 to 0", REDUCING(COLL_REDUCE, COLL_FLOAT64, COLL_SUM, 5), .root = 0),
    ONE("reduce of 5 to 1", REDUCING(COLL_REDUCE, COLL_FLOAT64, COLL_SUM, 5), .root = 1),
    ONE("reduce of 0 to 1", REDUCING(COLL_REDUCE, COLL_FLOAT64, COLL_SUM, 0), .root = 1),
    ONE("reduce_scatter of 5", REDUCING(COLL_REDUCE_SCATTER, COLL_INT64, COLL_SUM, 5)),
    ONE("reduce_scatter of 0", REDUCING(COLL_REDUCE_SCATTER, COLL_INT64, COLL_SUM, 0)),
    ONE("allgather of 5", PLAIN(COLL_ALLGATHER, COLL_UINT8, 5)),
    ONE("broadcast of 5 from 0", ROOTED(COLL_BROADCAST, COLL_FLOAT32, 5, 0)),
    ONE("broadcast of 5 from 1", ROOTED(COLL_BROADCAST, COLL_FLOAT32, 5, 1)),
    ONE("broadcast of 0 from 0", ROOTED(COLL_BROADCAST, COLL_FLOAT32, 0, 0)),
    ONE("broadcast, large, from 0", ROOTED(COLL_BROADCAST, COLL_FLOAT32, LARGE, 0), .mapped = true),
    ONE("gather of 5 to 0", ROOTED(COLL_GATHER, COLL_BFLOAT16, 5, 0)),
    ONE("gather of 1 to 1", ROOTED(COLL_GATHER, COLL_BFLOAT16, 1, 1)),
    ONE("scatter of 5 from 0", ROOTED(COLL_SCATTER, COLL_INT32, 5, 0)),
    ONE("scatter of 0 from 1", ROOTED(COLL_SCATTER, COLL_INT32, 0, 1)),
    ONE("alltoall of 5", PLAIN(COLL_ALLTOALL, COLL_FLOAT32, 5)),
    ONE("alltoall of 0", PLAIN(COLL_ALLTOALL, COLL_FLOAT32, 0)),
    ONE("alltoallv of 5", ALLTOALLV(5, 5)),
    ONE("alltoallv of 5, expecting 6", ALLTOALLV(5, 6)),
    ONE("alltoallv of 6, expecting 5", ALLTOALLV(6, 5)),
    ONE("alltoallv of 0", ALLTOALLV(0, 0)),
    ONE("allgatherv of 5 and up", VECTOR(COLL_ALLGATHERV, COLL_UINT8, 5, 1)),
    ONE("allgatherv of 6 and down", VECTOR(COLL_ALLGATHERV, COLL_UINT8, 6, -1)),
    ONE("allgatherv of 5 each", VECTOR(COLL_ALLGATHERV, COLL_UINT8, 5, 0)),
    ONE("reduce_scatterv of 5 and up", VECTOR(COLL_REDUCE_SCATTERV, COLL_INT64, 5, 1)),
    ONE("gatherv of 5 and up to 0", VECTOR_ROOTED(COLL_GATHERV, COLL_INT32, 5, 0)),
    ONE("gatherv of 4 and up to 0", VECTOR_ROOTED(COLL_GATHERV, COLL_INT32, 4, 0)),
    ONE("scatterv of 5 and up from 0", VECTOR_ROOTED(COLL_SCATTERV, COLL_INT32, 5, 0)),
    ONE("split", .verb = CALL_SPLIT),
    ONE("send of 3", PLAIN(CALL_SEND, COLL_INT32, 3)),
    ONE("send of 0", PLAIN(CALL_SEND, COLL_INT32, 0)),
    ONE("send, large", PLAIN(CALL_SEND, COLL_INT32, LARGE), .mapped = true),
    ONE("recv of 3", PLAIN(CALL_RECV, COLL_INT32, 3)),
    ONE("recv of 3, float32", PLAIN(CALL_RECV, COLL_FLOAT32, 3)),
    ONE("recv of 0", PLAIN(CALL_RECV, COLL_INT32, 0)),
    ONE("recv, large", PLAIN(CALL_RECV, COLL_INT32, LARGE)),
    {"group of send and recv of 3",
     2,
     true,
     {{PLAIN(CALL_SEND, COLL_INT32, 3)}, {PLAIN(CALL_RECV, COLL_INT32, 3)}}},
    {"group of large send and recv",
     2,
     true,
     {{PLAIN(CALL_SEND, COLL_INT32, LARGE)}, {PLAIN(CALL_RECV, COLL_INT32, LARGE)}}},
    {"group of send and recv to itself",
     2,
     true,
     {{PLAIN(CALL_SEND, COLL_INT32, 3), .to_self = true},
      {PLAIN(CALL_RECV, COLL_INT32, 3), .to_self = true}}},
    {"group of allreduce of 5 alone", 1, true, {{ALLREDUCE_SUM(5)}}},
    {"group of allreduce and broadcast",
     2,
     true,
     {{ALLREDUCE_SUM(5)}, {ROOTED(COLL_BROADCAST, COLL_FLOAT32, 5, 0)}}},
    {"allreduce, then broadcast",
     2,
     false,
     {{ALLREDUCE_SUM(5)}, {ROOTED(COLL_BROADCAST, COLL_FLOAT32, 5, 0)}}},
    {"group of allreduce and send of 3",
     2,
     true,
     {{ALLREDUCE_SUM(5)}, {PLAIN(CALL_SEND, COLL_INT32, 3)}}},
};

static const call_kind_t huge_kinds[] = {
    ONE("allreduce of 10000000, mapped", ALLREDUCE_SUM(10000000), .mapped = true),
    ONE("allreduce of 16787931, mapped", ALLREDUCE_SUM(16787931), .mapped = true),
};

int call_kind_count(void) {
  return (int)(sizeof kinds / sizeof *kinds);
}

const call_kind_t *call_kind_at(int index) {
  return &kinds[index];
}

int call_kind_huge_count(void) {
  return (int)(sizeof huge_kinds / sizeof *huge_kinds);
}

const call_kind_t *call_kind_huge_at(int index) {
  return &huge_kinds[index];
}

const call_kind_t *call_kind_find(const char *name) {
  for (int i = 0; i < call_kind_count(); i++) {
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  }
  for (int i = 0; i < call_kind_huge_count(); i++) {
    if (strcmp(huge_kinds[i].name, name) == 0) return &huge_kinds[i];
  }
  fprintf(stderr, "no kind of call is named '%s'\n", name);
  abort();
}

int call_peer(const call_t *call, int rank) {
  return call->to_self ? rank : rank ^ 1;
}

/* ---- what a report must say -----------------------------------------------------------------*/

/* The only place that depends on the wording of mismatch reports. */
void call_describe(const call_t *call, int rank, char text[CALL_TEXT_BYTES]) {
  const char *dtype = coll_dtype_name(call->dtype), *op = coll_op_name(call->op);
  const char *verb = coll_collective_name((coll_collective_t)call->verb);
  switch (call->verb) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE_SCATTER:
      snprintf(text, CALL_TEXT_BYTES, "%s(%s, %s, count %zu", verb, dtype,
               op != NULL ? op : "premul_sum", call->count);
      return;
    case COLL_REDUCE:
      snprintf(text, CALL_TEXT_BYTES, "%s(%s, %s, count %zu, root %d", verb, dtype, op, call->count,
               call->root);
      return;
    case COLL_BROADCAST:
    case COLL_GATHER:
    case COLL_SCATTER:
      snprintf(text, CALL_TEXT_BYTES, "%s(%s, count %zu, root %d", verb, dtype, call->count,
               call->root);
      return;
    case COLL_ALLTOALLV:
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_SCATTERV: snprintf(text, CALL_TEXT_BYTES, "%s(%s", verb, dtype); return;
    case COLL_REDUCE_SCATTERV:
      snprintf(text, CALL_TEXT_BYTES, "%s(%s, %s", verb, dtype, op);
      return;
    case COLL_BARRIER: snprintf(text, CALL_TEXT_BYTES, "barrier("); return;
    case CALL_SPLIT: snprintf(text, CALL_TEXT_BYTES, "split"); return;
    case CALL_SEND:
    case CALL_RECV:
      snprintf(text, CALL_TEXT_BYTES, "%s(%s, count %zu, %s rank %d",
               call->verb == CALL_SEND ? "send" : "recv", dtype, call->count,
               call->verb == CALL_SEND ? "to" : "from", call_peer(call, rank));
      return;
    default: snprintf(text, CALL_TEXT_BYTES, "%s(%s, count %zu", verb, dtype, call->count); return;
  }
}

/* ---- numbers in elements --------------------------------------------------------------------*/

static void put(coll_dtype_t dtype, void *at, int value) {
  float single = (float)value;
  double wide = value;
  int64_t integer = value; /* little-endian: its first bytes are the narrower integer */
  switch (dtype) {
    case COLL_FLOAT32: memcpy(at, &single, sizeof single); return;
    case COLL_FLOAT64: memcpy(at, &wide, sizeof wide); return;
    case COLL_BFLOAT16: memcpy(at, (const char *)&single + 2, 2); return;
    default: memcpy(at, &integer, coll_dtype_bytes(dtype)); return;
  }
}

static void fill(coll_dtype_t dtype, void *at, size_t count, int value) {
  size_t bytes = coll_dtype_bytes(dtype) * count, done = coll_dtype_bytes(dtype);
  if (count == 0) return;
  put(dtype, at, value);
  while (done < bytes) {
    size_t more = done < bytes - done ? done : bytes - done;
    memcpy((char *)at + done, at, more);
    done += more;
  }
}

static bool holds(coll_dtype_t dtype, const void *at, size_t count, int value) {
  size_t element = coll_dtype_bytes(dtype), places[] = {0, count / 2, count - 1};
  char expected[8];
  put(dtype, expected, value);
  for (int i = 0; count > 0 && i < 3; i++) {
    if (memcmp((const char *)at + places[i] * element, expected, element) != 0) return false;
  }
  return true;
}

/* ---- buffers --------------------------------------------------------------------------------*/

static bool has_input_blocks(int verb) {
  return verb == COLL_REDUCE_SCATTER || verb == COLL_SCATTER || verb == COLL_ALLTOALL ||
         verb == COLL_ALLTOALLV || verb == COLL_REDUCE_SCATTERV || verb == COLL_SCATTERV;
}

static bool is_vector(int verb) {
  return verb == COLL_ALLGATHERV || verb == COLL_REDUCE_SCATTERV || verb == COLL_GATHERV ||
         verb == COLL_SCATTERV;
}

static size_t rank_count(const call_t *call, int rank) {
  return (size_t)((int)call->count + rank * call->step);
}

/* Elements from the start of one rank's block to the start of the next. */
static size_t block_stride(const call_t *call) {
  return call->verb == COLL_ALLTOALLV || is_vector(call->verb) ? UNEVEN_STRIDE : call->count;
}

static void release(void *memory, bool mapped) {
  if (mapped) {
    coll_mem_free(memory);
  } else {
    free(memory);
  }
}

void call_memory_free(call_memory_t *memory) {
  for (int i = 0; i < CALL_KIND_CALLS_MAX; i++) {
    for (int mapped = 0; mapped < 2; mapped++) {
      release(memory->input[i][mapped], mapped);
      release(memory->output[i][mapped], mapped);
    }
  }
  *memory = (call_memory_t){0};
}

static void *allocate(size_t bytes, bool mapped) {
  void *memory = NULL;
  if (mapped ? coll_mem_alloc(COLL_DEVICE_HOST, bytes, &memory) != COLL_OK
             : (memory = calloc(1, bytes)) == NULL) {
    fprintf(stderr, "no %zu bytes for a test\n", bytes);
    abort();
  }
  return memory;
}

static void reserve(call_memory_t *memory, int i, const call_t *call, int size) {
  size_t blocks = call->count > LARGE / 2 ? 1 : (size_t)size;
  size_t bytes = coll_dtype_bytes(call->dtype) * blocks * block_stride(call);
  bool mapped = call->mapped;
  if (bytes < BUFFER_BYTES) bytes = BUFFER_BYTES;
  if (memory->bytes[i][mapped] >= bytes) return;
  release(memory->input[i][mapped], mapped);
  release(memory->output[i][mapped], mapped);
  memory->input[i][mapped] = allocate(bytes, mapped);
  memory->output[i][mapped] = allocate(bytes, mapped);
  memory->bytes[i][mapped] = bytes;
}

static void prepare(const call_t *call, int rank, int size, void *input, void *output) {
  size_t stride = block_stride(call) * coll_dtype_bytes(call->dtype);
  if (call->count > CHECKED_MAX) return;
  if (!has_input_blocks(call->verb)) {
    fill(call->dtype, input, is_vector(call->verb) ? rank_count(call, rank) : call->count,
         rank + 1);
    size_t blocks = call->count > LARGE / 2 ? 1 : (size_t)size;
    memset(output, 0, blocks * stride);
    return;
  }
  memset(output, 0, (size_t)size * stride);
  bool packed = call->verb == COLL_REDUCE_SCATTERV;
  char *at = input;
  for (int j = 0; j < size; j++) {
    size_t count = packed ? rank_count(call, j) : block_stride(call);
    fill(call->dtype, at, count, rank + 1 + BLOCK_FACTOR * j);
    at += count * coll_dtype_bytes(call->dtype);
  }
}

/* ---- results --------------------------------------------------------------------------------*/

static size_t alltoallv_count(const call_t *call, int rank, int peer, bool sent) {
  if (peer == rank) return call->count > 0 ? ALLTOALLV_SELF_COUNT : 0;
  return sent ? call->count : call->recv_count;
}

static bool blocks_are_right(const call_t *call, int rank, int size, const void *output) {
  size_t stride = block_stride(call) * coll_dtype_bytes(call->dtype);
  for (int j = 0; j < size; j++) {
    int value = j + 1 + (has_input_blocks(call->verb) ? BLOCK_FACTOR * rank : 0);
    size_t count = call->verb == COLL_ALLTOALLV ? alltoallv_count(call, rank, j, false)
                   : is_vector(call->verb)      ? rank_count(call, j)
                                                : call->count;
    if (!holds(call->dtype, (const char *)output + (size_t)j * stride, count, value)) return false;
  }
  return true;
}

/* The number in all elements of the rank's output; 0 if it has none. */
static int single_result(const call_t *call, int rank, int size) {
  int sum = size * (size + 1) / 2;
  switch (call->verb) {
    case COLL_ALLREDUCE:
      return call->op == COLL_MAX ? size : call->op == COLL_SUM ? sum : PREMUL_SCALAR * sum;
    case COLL_REDUCE: return rank == call->root ? sum : 0;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTERV: return sum + BLOCK_FACTOR * rank * size;
    case COLL_BROADCAST: return call->root + 1;
    case COLL_SCATTER:
    case COLL_SCATTERV: return call->root + 1 + BLOCK_FACTOR * rank;
    case CALL_RECV: return call_peer(call, rank) + 1;
    default: return 0;
  }
}

static bool is_right(const call_t *call, int rank, int size, const void *output) {
  bool gathered = call->verb == COLL_ALLGATHER || call->verb == COLL_ALLTOALL ||
                  call->verb == COLL_ALLTOALLV || call->verb == COLL_ALLGATHERV ||
                  (call->verb == COLL_GATHER && rank == call->root) ||
                  (call->verb == COLL_GATHERV && rank == call->root);
  if (call->count > CHECKED_MAX) return true;
  if (gathered) return blocks_are_right(call, rank, size, output);
  int value = single_result(call, rank, size);
  size_t count = is_vector(call->verb) ? rank_count(call, rank) : call->count;
  return value == 0 || holds(call->dtype, output, count, value);
}

/* ---- running --------------------------------------------------------------------------------*/

static coll_status_t run_alltoallv(const call_t *c, coll_comm_t comm, int rank, int size,
                                   const void *in, void *out) {
  size_t sent[CALL_RANKS_MAX], expected[CALL_RANKS_MAX], displs[CALL_RANKS_MAX];
  for (int j = 0; j < size; j++) {
    sent[j] = alltoallv_count(c, rank, j, true);
    expected[j] = alltoallv_count(c, rank, j, false);
    displs[j] = (size_t)j * UNEVEN_STRIDE;
  }
  return coll_alltoallv(in, sent, displs, out, expected, displs, c->dtype, comm, NULL);
}

static coll_status_t run_vector(const call_t *c, coll_comm_t comm, int rank, int size,
                                const void *in, void *out) {
  size_t counts[CALL_RANKS_MAX], displs[CALL_RANKS_MAX], own = rank_count(c, rank);
  for (int j = 0; j < size; j++) {
    counts[j] = rank_count(c, j);
    displs[j] = (size_t)j * UNEVEN_STRIDE;
  }
  switch (c->verb) {
    case COLL_ALLGATHERV: return coll_allgatherv(in, out, counts, displs, c->dtype, comm, NULL);
    case COLL_REDUCE_SCATTERV:
      return coll_reduce_scatterv(in, out, counts, c->dtype, c->op, comm, NULL);
    case COLL_GATHERV:
      return coll_gatherv(in, own, out, counts, displs, c->dtype, c->root, comm, NULL);
    default: return coll_scatterv(in, counts, displs, out, own, c->dtype, c->root, comm, NULL);
  }
}

static coll_status_t run_split(coll_comm_t comm) {
  coll_comm_t child = NULL;
  coll_status_t status = coll_comm_split(comm, 0, 0, NULL, &child);
  return status == COLL_OK ? coll_comm_destroy(child) : status;
}

static coll_status_t run_allreduce(const call_t *c, coll_comm_t comm, const void *in, void *out) {
  const float scalar = PREMUL_SCALAR; /* of the only dtype used here */
  coll_op_t op = c->op;
  if (c->algo != NULL) {
    coll_status_t status = coll_comm_algo_set(comm, COLL_ALLREDUCE, c->algo);
    if (status != COLL_OK) return status;
  }
  if (op == CALL_PREMUL_SUM) {
    coll_status_t status =
        coll_op_create_premul_sum(&scalar, c->dtype, COLL_SCALAR_HOST_IMMEDIATE, comm, &op);
    if (status != COLL_OK) return status;
  }
  return coll_allreduce(in, out, c->count, c->dtype, op, comm, NULL);
}

static coll_status_t run_call(const call_t *c, coll_comm_t comm, int rank, int size, const void *in,
                              void *out) {
  size_t n = c->count;
  switch (c->verb) {
    case COLL_ALLREDUCE: return run_allreduce(c, comm, in, out);
    case COLL_REDUCE: return coll_reduce(in, out, n, c->dtype, c->op, c->root, comm, NULL);
    case COLL_REDUCE_SCATTER: return coll_reduce_scatter(in, out, n, c->dtype, c->op, comm, NULL);
    case COLL_ALLGATHER: return coll_allgather(in, out, n, c->dtype, comm, NULL);
    case COLL_BROADCAST: return coll_broadcast(in, out, n, c->dtype, c->root, comm, NULL);
    case COLL_GATHER: return coll_gather(in, out, n, c->dtype, c->root, comm, NULL);
    case COLL_SCATTER: return coll_scatter(in, out, n, c->dtype, c->root, comm, NULL);
    case COLL_ALLTOALL: return coll_alltoall(in, out, n, c->dtype, comm, NULL);
    case COLL_ALLTOALLV: return run_alltoallv(c, comm, rank, size, in, out);
    case COLL_ALLGATHERV:
    case COLL_REDUCE_SCATTERV:
    case COLL_GATHERV:
    case COLL_SCATTERV: return run_vector(c, comm, rank, size, in, out);
    case COLL_BARRIER: return coll_barrier(comm, NULL);
    case CALL_SPLIT: return run_split(comm);
    case CALL_SEND: return coll_send(in, n, c->dtype, call_peer(c, rank), comm, NULL);
    case CALL_RECV: return coll_recv(out, n, c->dtype, call_peer(c, rank), comm, NULL);
    default: abort();
  }
}

coll_status_t call_kind_run(const call_kind_t *kind, coll_comm_t comm, int rank, int size,
                            call_memory_t *memory, bool *right) {
  coll_status_t status = COLL_OK;
  *right = true;
  for (int i = 0; i < kind->call_count; i++) {
    const call_t *call = &kind->calls[i];
    reserve(memory, i, call, size);
    prepare(call, rank, size, memory->input[i][call->mapped], memory->output[i][call->mapped]);
  }
  if (kind->grouped) status = coll_group_start();
  for (int i = 0; i < kind->call_count && status == COLL_OK; i++) {
    const call_t *call = &kind->calls[i];
    status = run_call(call, comm, rank, size, memory->input[i][call->mapped],
                      memory->output[i][call->mapped]);
  }
  if (kind->grouped) {
    coll_status_t ended = coll_group_end();
    if (status == COLL_OK) status = ended;
  }
  for (int i = 0; i < kind->call_count && status == COLL_OK; i++) {
    const call_t *call = &kind->calls[i];
    *right = *right && is_right(call, rank, size, memory->output[i][call->mapped]);
  }
  return status;
}
