/* Every call goes through begin_call and end_call, which keep failures, counts and waiting times.
 */
#include "libtrain/parallel/axis.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

coll_status_t train_axis_init(coll_comm_t comm, train_axis_t *axis) {
  train_axis_t made = {.group = {.comm = NULL, .rank = 0, .size = 1}, .status = COLL_OK};
  if (comm != NULL) COLL_TRY(train_group_init(comm, &made.group));
  *axis = made;
  return COLL_OK;
}

void train_axis_free(train_axis_t *axis) {
  coll_stream_destroy(axis->stream);
  *axis = (train_axis_t){.group = {.size = 1}};
}

coll_status_t train_axis_status(const train_axis_t *axis) {
  return axis->status == COLL_OK ? COLL_OK : base_fail(axis->status, "%s", axis->message);
}

void train_axis_fail(train_axis_t *axis, coll_status_t status) {
  if (status == COLL_OK || axis->status != COLL_OK) return;
  axis->status = status;
  snprintf(axis->message, sizeof axis->message, "%s", base_last_error());
  if (axis->group.comm != NULL && coll_comm_error(axis->group.comm) == COLL_OK) {
    coll_comm_abort(axis->group.comm);
  }
}

static void check(train_axis_t *axis, coll_status_t status) {
  if (status == COLL_OK) return;
  train_group_check(&axis->group, status);
  if (axis->name[0] != '\0') base_fail(status, "%s: %s", axis->name, base_last_error());
  train_axis_fail(axis, status);
}

/* ---- queue ---- */

void train_axis_queue(train_axis_t *axis) {
  if (axis->group.size == 1 || axis->serial || axis->status != COLL_OK) return;
  if (axis->stream == NULL) check(axis, coll_stream_create(&axis->stream));
  axis->queues = axis->status == COLL_OK;
}

void train_axis_wait(train_axis_t *axis) {
  if (!axis->queues) return;
  uint64_t start_ns = base_clock_now_ns();
  coll_status_t status = coll_stream_sync(axis->stream);
  uint64_t end_ns = base_clock_now_ns();
  axis->waited_ns += end_ns - start_ns;
  train_trace_waited(&axis->track, start_ns, end_ns);
  axis->queues = false;
  check(axis, status);
}

/* ---- the beginning and end of every call ---- */

typedef struct call {
  train_trace_kind_t kind;
  uint64_t start_ns;
  coll_stream_t stream;
} call_t;

/* Whether the call is made: not after a failure. */
static bool begin_call(const train_axis_t *axis, train_trace_kind_t kind, call_t *call) {
  if (axis->status != COLL_OK) return false;
  call->kind = kind;
  call->start_ns = base_clock_now_ns();
  call->stream = axis->queues ? axis->stream : NULL;
  return true;
}

static void end_call(train_axis_t *axis, const call_t *call, coll_status_t status, size_t bytes) {
  axis->bytes_sent += bytes;
  if (call->stream == NULL) {
    uint64_t end_ns = base_clock_now_ns();
    axis->waited_ns += end_ns - call->start_ns;
    train_trace_call(&axis->track, call->kind, call->start_ns, end_ns, bytes);
  } else {
    train_trace_queued(&axis->track, call->start_ns, bytes);
  }
  check(axis, status);
}

static bool is_alone(const train_axis_t *axis) {
  return axis->group.size == 1;
}

static size_t peers(const train_axis_t *axis) {
  return (size_t)axis->group.size - 1;
}

static void copy(train_dtype_t dtype, const void *from, void *to, size_t count) {
  if (from != to && count > 0) memcpy(to, from, count * train_dtype_bytes(dtype));
}

/* ---- collectives ---- */

static void reduce_all(train_axis_t *axis, coll_dtype_t dtype, coll_op_t op, void *values,
                       size_t count) {
  call_t call;
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_ALLREDUCE, &call)) return;
  size_t bytes = 2 * count * peers(axis) / (size_t)axis->group.size * coll_dtype_bytes(dtype);
  end_call(axis, &call,
           coll_allreduce(values, values, count, dtype, op, axis->group.comm, call.stream), bytes);
}

void train_axis_allreduce(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count) {
  reduce_all(axis, train_group_dtype(dtype), COLL_SUM, values, count);
}

void train_axis_max(train_axis_t *axis, float *values, size_t count) {
  reduce_all(axis, COLL_FLOAT32, COLL_MAX, values, count);
}

void train_axis_sum_floats(train_axis_t *axis, float *values, size_t count) {
  reduce_all(axis, COLL_FLOAT32, COLL_SUM, values, count);
}

void train_axis_sum_doubles(train_axis_t *axis, double *values, size_t count) {
  reduce_all(axis, COLL_FLOAT64, COLL_SUM, values, count);
}

void train_axis_allgather(train_axis_t *axis, train_dtype_t dtype, const void *own, void *all,
                          size_t count) {
  call_t call;
  if (is_alone(axis)) copy(dtype, own, all, count);
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_ALLGATHER, &call)) return;
  end_call(axis, &call,
           coll_allgather(own, all, count, train_group_dtype(dtype), axis->group.comm, call.stream),
           count * peers(axis) * train_dtype_bytes(dtype));
}

void train_axis_reduce_scatter(train_axis_t *axis, train_dtype_t dtype, const void *all, void *own,
                               size_t count) {
  call_t call;
  if (is_alone(axis)) copy(dtype, all, own, count);
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_REDUCE_SCATTER, &call)) return;
  end_call(axis, &call,
           coll_reduce_scatter(all, own, count, train_group_dtype(dtype), COLL_SUM,
                               axis->group.comm, call.stream),
           count * peers(axis) * train_dtype_bytes(dtype));
}

void train_axis_alltoall(train_axis_t *axis, train_dtype_t dtype, const void *from, void *to,
                         size_t count) {
  call_t call;
  if (is_alone(axis)) copy(dtype, from, to, count);
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_ALLTOALL, &call)) return;
  end_call(axis, &call,
           coll_alltoall(from, to, count, train_group_dtype(dtype), axis->group.comm, call.stream),
           count * peers(axis) * train_dtype_bytes(dtype));
}

void train_axis_alltoallv(train_axis_t *axis, train_dtype_t dtype, const void *from, void *to,
                          const train_axis_blocks_t *blocks) {
  call_t call;
  size_t sent = 0;
  if (is_alone(axis)) {
    copy(dtype, train_dtype_const_at(dtype, from, blocks->from_offsets[0]),
         train_dtype_at(dtype, to, blocks->to_offsets[0]), blocks->from_counts[0]);
  }
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_ALLTOALL, &call)) return;
  for (int rank = 0; rank < axis->group.size; rank++) {
    if (rank != axis->group.rank) sent += blocks->from_counts[rank];
  }
  end_call(
      axis, &call,
      coll_alltoallv(from, blocks->from_counts, blocks->from_offsets, to, blocks->to_counts,
                     blocks->to_offsets, train_group_dtype(dtype), axis->group.comm, call.stream),
      sent * train_dtype_bytes(dtype));
}

void train_axis_exchange_counts(train_axis_t *axis, const size_t *from, size_t *to) {
  call_t call;
  _Static_assert(sizeof(size_t) == sizeof(uint64_t), "counts are sent as uint64");
  if (is_alone(axis)) to[0] = from[0];
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_ALLTOALL, &call)) return;
  call.stream = NULL;
  end_call(axis, &call, coll_alltoall(from, to, 1, COLL_UINT64, axis->group.comm, NULL),
           peers(axis) * sizeof *from);
}

void train_axis_reduce(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                       int root) {
  call_t call;
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_REDUCE, &call)) return;
  size_t sent = axis->group.rank == root ? 0 : count;
  end_call(axis, &call,
           coll_reduce(values, values, count, train_group_dtype(dtype), COLL_SUM, root,
                       axis->group.comm, call.stream),
           sent * train_dtype_bytes(dtype));
}

void train_axis_broadcast(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                          int root) {
  call_t call;
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_BROADCAST, &call)) return;
  bool is_last = (axis->group.rank + 1) % axis->group.size == root;
  end_call(axis, &call,
           coll_broadcast(values, values, count, train_group_dtype(dtype), root, axis->group.comm,
                          call.stream),
           is_last ? 0 : count * train_dtype_bytes(dtype));
}

/* ---- messages ---- */

void train_axis_send(train_axis_t *axis, train_dtype_t dtype, const void *values, size_t count,
                     int to_rank) {
  call_t call;
  assert(to_rank != axis->group.rank);
  if (!begin_call(axis, TRAIN_TRACE_SEND, &call)) return;
  end_call(
      axis, &call,
      coll_send(values, count, train_group_dtype(dtype), to_rank, axis->group.comm, call.stream),
      count * train_dtype_bytes(dtype));
}

void train_axis_recv(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                     int from_rank) {
  call_t call;
  assert(from_rank != axis->group.rank);
  if (!begin_call(axis, TRAIN_TRACE_RECEIVE, &call)) return;
  end_call(
      axis, &call,
      coll_recv(values, count, train_group_dtype(dtype), from_rank, axis->group.comm, call.stream),
      0);
}

/* A group of one send and one receive; after an error of one of them the group runs none. */
static coll_status_t send_and_receive(const train_axis_t *axis, coll_dtype_t dtype,
                                      const void *from, int to_rank, void *to, int from_rank,
                                      size_t count, coll_stream_t stream) {
  COLL_TRY(coll_group_start());
  coll_status_t sent = coll_send(from, count, dtype, to_rank, axis->group.comm, stream);
  coll_status_t received = coll_recv(to, count, dtype, from_rank, axis->group.comm, stream);
  coll_status_t ended = coll_group_end();
  if (sent != COLL_OK) return sent;
  return received != COLL_OK ? received : ended;
}

void train_axis_sendrecv(train_axis_t *axis, train_dtype_t dtype, const void *from, int to_rank,
                         void *to, int from_rank, size_t count) {
  call_t call;
  if (is_alone(axis)) copy(dtype, from, to, count);
  if (is_alone(axis) || !begin_call(axis, TRAIN_TRACE_SENDRECV, &call)) return;
  end_call(axis, &call,
           send_and_receive(axis, train_group_dtype(dtype), from, to_rank, to, from_rank, count,
                            call.stream),
           to_rank == axis->group.rank ? 0 : count * train_dtype_bytes(dtype));
}
