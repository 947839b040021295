/* An array that travels narrow is kept in the lower half of its own memory meanwhile. */
#include "libtrain/parallel/wire.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "libtrain/parallel/bfloat16.h"

typedef struct train_landing {
  const uint16_t *narrow;
  size_t count;
  float *wide;
} train_landing_t;

/* libcoll keeps its own last error; this moves it to where the program looks. */
static coll_status_t kept(const train_wire_t *wire, coll_status_t status) {
  if (status == COLL_OK) return COLL_OK;
  coll_comm_t failed = coll_comm_error(wire->team->comm) != COLL_OK ? wire->team->comm : NULL;
  return base_fail(status, "%s", coll_last_error(failed));
}

coll_status_t train_wire_init(const train_team_t *team, const train_wire_options_t *options,
                              size_t calls, train_wire_t *wire) {
  train_wire_t made = {.team = team, .options = *options, .landing_limit = calls};
  void *memory;
  COLL_TRY(base_alloc(calls, sizeof *made.landings, "the calls under way", &memory));
  made.landings = memory;
  coll_status_t status = kept(&made, coll_stream_create(&made.stream));
  if (status != COLL_OK) {
    free(memory);
    return status;
  }
  *wire = made;
  return COLL_OK;
}

void train_wire_free(train_wire_t *wire) {
  coll_stream_destroy(wire->stream);
  free(wire->landings);
  *wire = (train_wire_t){0};
}

static coll_stream_t stream_of(const train_wire_t *wire) {
  return wire->options.overlap ? wire->stream : NULL;
}

static size_t element_bytes(bool narrow) {
  return narrow ? sizeof(uint16_t) : sizeof(float);
}

static coll_dtype_t dtype_of(bool narrow) {
  return narrow ? COLL_BFLOAT16 : COLL_FLOAT32;
}

static void count_sent(train_wire_t *wire, size_t count, int times, bool narrow) {
  if (wire->team->size > 1) wire->bytes_sent += count * (size_t)times * element_bytes(narrow);
}

static void expect(train_wire_t *wire, const uint16_t *narrow, size_t count, float *wide) {
  assert(wire->landing_count < wire->landing_limit);
  wire->landings[wire->landing_count++] = (train_landing_t){narrow, count, wide};
}

static void land(train_wire_t *wire) {
  for (size_t i = 0; i < wire->landing_count; i++) {
    const train_landing_t *landing = &wire->landings[i];
    train_bfloat16_widen(landing->narrow, landing->count, landing->wide);
  }
  wire->landing_count = 0;
}

/* The end of every call: what was called at once is complete now. */
static coll_status_t called(train_wire_t *wire, uint64_t start_ns, coll_status_t status) {
  if (wire->options.overlap) return kept(wire, status);
  wire->waited_ns += base_clock_now_ns() - start_ns;
  COLL_TRY(kept(wire, status));
  land(wire);
  return COLL_OK;
}

coll_status_t train_wire_allreduce(train_wire_t *wire, float *values, size_t count) {
  bool narrow = wire->options.bfloat16;
  uint16_t *travelling = (uint16_t *)values;
  if (wire->options.silent) return COLL_OK;
  if (narrow) {
    train_bfloat16_narrow(values, count, travelling);
    expect(wire, travelling, count, values);
  }
  count_sent(wire, count, 2, narrow);
  uint64_t start_ns = base_clock_now_ns();
  return called(wire, start_ns,
                coll_allreduce(values, values, count, dtype_of(narrow), COLL_SUM, wire->team->comm,
                               stream_of(wire)));
}

coll_status_t train_wire_reduce_scatter(train_wire_t *wire, float *bucket, size_t share,
                                        size_t count) {
  bool narrow = wire->options.bfloat16;
  size_t first = (size_t)wire->team->rank * share, all = (size_t)wire->team->size * share;
  uint16_t *travelling = (uint16_t *)bucket;
  void *received = narrow ? (void *)(travelling + first) : (void *)(bucket + first);
  if (wire->options.silent) return COLL_OK;
  if (narrow) {
    train_bfloat16_narrow(bucket, all, travelling);
    expect(wire, travelling + first, share, bucket + first);
  }
  count_sent(wire, count, 1, narrow);
  uint64_t start_ns = base_clock_now_ns();
  return called(wire, start_ns,
                coll_reduce_scatter(bucket, received, share, dtype_of(narrow), COLL_SUM,
                                    wire->team->comm, stream_of(wire)));
}

coll_status_t train_wire_allgather(train_wire_t *wire, const float *own, float *bucket,
                                   size_t share, size_t count) {
  size_t first = (size_t)wire->team->rank * share, all = (size_t)wire->team->size * share;
  bool narrow = wire->options.bfloat16 && own != bucket + first;
  uint16_t *travelling = (uint16_t *)bucket;
  const void *sent = narrow ? (const void *)(travelling + first) : (const void *)own;
  if (wire->options.silent) return COLL_OK;
  if (narrow) {
    train_bfloat16_narrow(own, share, travelling + first);
    expect(wire, travelling, all, bucket);
  }
  count_sent(wire, count, 1, narrow);
  uint64_t start_ns = base_clock_now_ns();
  return called(
      wire, start_ns,
      coll_allgather(sent, bucket, share, dtype_of(narrow), wire->team->comm, stream_of(wire)));
}

coll_status_t train_wire_wait(train_wire_t *wire) {
  uint64_t start_ns = base_clock_now_ns();
  coll_status_t status = coll_stream_sync(wire->stream);
  wire->waited_ns += base_clock_now_ns() - start_ns;
  COLL_TRY(kept(wire, status));
  land(wire);
  return COLL_OK;
}
