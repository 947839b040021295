/*
 * A group of sends and receives. Each direction of each peer is a lane, which has one order. The
 * two ends of a message know only their own groups, so no lane may wait for another: a group is one
 * step, with all its messages in pinned memory.
 *
 * The messages of alltoallv are many, but all ranks have them in the same call. So they are cut
 * into windows, by their own sizes, as these are all that both ends know, and a rank's step s has
 * `each` windows of every lane, from window s * each on: as many as fit a slot, which may differ
 * between ranks. Window w of a lane waits for no window above w of any lane, on any rank.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "offload/proxy_state.h"

#define WINDOW_BYTES_MAX ((size_t)1 << 20)

/* A window in a slot. */
typedef struct part {
  const gpu_transfer_t *transfer;
  size_t offset, bytes; /* of the message */
  size_t at;            /* in the slot */
} part_t;

typedef struct exchange {
  offload_proxy_t *proxy;
  const gpu_transfer_t *transfers;
  size_t count;
  size_t window; /* bytes; SIZE_MAX: messages are whole */
  size_t each;   /* windows of a lane in a step */
  size_t *first; /* [count]: the place of a message's first window in its lane */
  part_t *parts; /* of one step */
  size_t part_count;
} exchange_t;

/* The same on all ranks. A slot takes a window of every peer. */
static size_t window_of(const struct coll_comm *comm) {
  size_t window = WINDOW_BYTES_MAX;
  while (window > PROXY_ALIGNMENT && window * (size_t)comm->size > PROXY_SLOT_BYTES) window /= 2;
  return window;
}

static size_t windows_of(const exchange_t *exchange, const gpu_transfer_t *transfer) {
  return transfer->bytes > 0 ? (transfer->bytes - 1) / exchange->window + 1 : 1;
}

/* Sets `first`. lanes: [2 * size], zeroed; then the windows of each. *longest: of all lanes. *used:
 * lanes of the direction that has more. */
static void lay_out(exchange_t *exchange, size_t lanes[], size_t *longest, size_t *used) {
  size_t per_direction[2] = {0, 0};
  for (size_t i = 0; i < exchange->count; i++) {
    const gpu_transfer_t *transfer = &exchange->transfers[i];
    size_t *lane = &lanes[2 * (size_t)transfer->peer + transfer->sends];
    if (*lane == 0) per_direction[transfer->sends]++;
    exchange->first[i] = *lane;
    *lane += windows_of(exchange, transfer);
    if (*lane > *longest) *longest = *lane;
  }
  *used = per_direction[0] > per_direction[1] ? per_direction[0] : per_direction[1];
}

/* ---- steps -----------------------------------------------------------------------------------*/

/* Lists the windows of transfer i that are in the step. at: the next free byte of the slot's output
 * and input. */
static void list_windows(exchange_t *exchange, size_t i, size_t step, size_t at[2]) {
  const gpu_transfer_t *transfer = &exchange->transfers[i];
  size_t begin = step * exchange->each, end = begin + exchange->each;
  size_t first = exchange->first[i], beyond = first + windows_of(exchange, transfer);
  for (size_t w = begin > first ? begin : first; w < end && w < beyond; w++) {
    size_t offset = (w - first) * exchange->window, rest = transfer->bytes - offset;
    size_t bytes = rest < exchange->window ? rest : exchange->window;
    exchange->parts[exchange->part_count++] =
        (part_t){transfer, offset, bytes, at[transfer->sends]};
    at[transfer->sends] += base_round_up(bytes, PROXY_ALIGNMENT);
  }
}

static void list_parts(exchange_t *exchange, size_t step, size_t *in_bytes, size_t *out_bytes) {
  size_t at[2] = {0, 0};
  exchange->part_count = 0;
  for (size_t i = 0; i < exchange->count; i++) list_windows(exchange, i, step, at);
  *in_bytes = at[1];
  *out_bytes = at[0];
}

static void *user_address(const part_t *part) {
  return (char *)part->transfer->address + part->offset;
}

static run_call_t make_call(offload_proxy_t *proxy, const part_t *part, const proxy_slot_t *slot) {
  const gpu_transfer_t *transfer = part->transfer;
  const comm_traits_t traits = {
      .collective = COLL_SENDRECV, .dtype = COLL_UINT8, .root = transfer->peer};
  return (run_call_t){.kind = transfer->sends ? RUN_SEND : RUN_RECV,
                      .comm = proxy->host,
                      .shape = comm_shape_make(traits, part->bytes),
                      .send = transfer->sends ? slot->in + part->at : NULL,
                      .recv = transfer->sends ? NULL : slot->out + part->at};
}

static coll_status_t begin(void *context, size_t step, const proxy_slot_t *slot,
                           cuda_copies_t *copies, proxy_job_t **job) {
  exchange_t *exchange = context;
  size_t in_bytes, out_bytes;
  list_parts(exchange, step, &in_bytes, &out_bytes);
  for (size_t i = 0; i < exchange->part_count; i++) {
    const part_t *part = &exchange->parts[i];
    if (!part->transfer->sends) continue;
    COLL_TRY(cuda_copies_add(copies, slot->in + part->at, user_address(part), part->bytes));
  }
  COLL_TRY(proxy_job_create(exchange->proxy, slot, exchange->part_count, job));
  for (size_t i = 0; i < exchange->part_count; i++) {
    (*job)->calls[i] = make_call(exchange->proxy, &exchange->parts[i], slot);
  }
  return COLL_OK;
}

static coll_status_t end(void *context, size_t step, const proxy_slot_t *slot,
                         cuda_copies_t *copies) {
  exchange_t *exchange = context;
  size_t in_bytes, out_bytes;
  list_parts(exchange, step, &in_bytes, &out_bytes);
  for (size_t i = 0; i < exchange->part_count; i++) {
    const part_t *part = &exchange->parts[i];
    if (part->transfer->sends) continue;
    COLL_TRY(cuda_copies_add(copies, user_address(part), slot->out + part->at, part->bytes));
  }
  return COLL_OK;
}

/* ---- the group -------------------------------------------------------------------------------*/

/* lanes: [2 * size]. */
static coll_status_t queue_steps(exchange_t *exchange, size_t lanes[], cuda_stream_t stream) {
  size_t longest = 0, used = 0;
  lay_out(exchange, lanes, &longest, &used);
  bool is_whole = exchange->window == SIZE_MAX;
  exchange->each = is_whole ? longest : PROXY_SLOT_BYTES / (exchange->window * used);
  if (exchange->each == 0) exchange->each = 1;
  size_t most = is_whole ? exchange->count : 2 * used * exchange->each;
  COLL_TRY(
      base_alloc(most, sizeof *exchange->parts, "windows of messages", (void **)&exchange->parts));
  proxy_steps_t steps = {
      .count = (longest - 1) / exchange->each + 1, .begin = begin, .end = end, .context = exchange};
  list_parts(exchange, 0, &steps.in_bytes, &steps.out_bytes);
  coll_status_t status = proxy_queue(exchange->proxy, stream, &steps);
  free(exchange->parts);
  return status;
}

static coll_status_t queue(offload_proxy_t *proxy, const gpu_transfer_t transfers[], size_t count,
                           size_t window, cuda_stream_t stream) {
  exchange_t exchange = {.proxy = proxy, .transfers = transfers, .count = count, .window = window};
  size_t *lanes;
  COLL_TRY(base_alloc(2 * (size_t)proxy->comm->size, sizeof *lanes, "lanes of messages",
                      (void **)&lanes));
  coll_status_t status =
      base_alloc(count, sizeof *exchange.first, "windows of messages", (void **)&exchange.first);
  if (status == COLL_OK) status = queue_steps(&exchange, lanes, stream);
  free(exchange.first);
  free(lanes);
  return status;
}

/* The next transfer of that direction within this rank, from index i on; `count`: there is none. */
static size_t next_own(const offload_proxy_t *proxy, const gpu_transfer_t transfers[], size_t count,
                       bool sends, size_t i) {
  while (i < count && (transfers[i].peer != proxy->comm->rank || transfers[i].sends != sends)) i++;
  return i;
}

/* Else the rank would wait for itself. */
static coll_status_t check_own(const offload_proxy_t *proxy, const gpu_transfer_t transfers[],
                               size_t count) {
  size_t send = next_own(proxy, transfers, count, true, 0);
  size_t recv = next_own(proxy, transfers, count, false, 0);
  while (send < count && recv < count && transfers[send].bytes == transfers[recv].bytes) {
    send = next_own(proxy, transfers, count, true, send + 1);
    recv = next_own(proxy, transfers, count, false, recv + 1);
  }
  if (send == count && recv == count) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "rank %d: a group's sends to this rank do not match its receives from it",
                   proxy->comm->rank);
}

coll_status_t offload_proxy_exchange(offload_proxy_t *proxy, const gpu_transfer_t transfers[],
                                     size_t count, cuda_stream_t stream) {
  COLL_TRY(check_own(proxy, transfers, count));
  return queue(proxy, transfers, count, SIZE_MAX, stream);
}

/* Lists the blocks that are not empty. Returns how many. */
static size_t list_blocks(const run_call_t *call, gpu_transfer_t transfers[]) {
  size_t size = (size_t)call->comm->size, count = 0;
  size_t element_bytes = base_dtype_bytes(comm_traits_of(call->shape).dtype);
  for (size_t i = 0; i < 2 * size; i++) {
    size_t peer = i / 2;
    bool sends = i % 2 == 0;
    const size_t *counts = call->blocks + (sends ? 0 : 2 * size), *offsets = counts + size;
    char *base = sends ? (char *)(uintptr_t)call->send : call->recv;
    if (counts[peer] == 0) continue;
    transfers[count++] = (gpu_transfer_t){.peer = (int32_t)peer,
                                          .sends = sends,
                                          .address = base + offsets[peer] * element_bytes,
                                          .bytes = counts[peer] * element_bytes};
  }
  return count;
}

coll_status_t proxy_alltoallv(offload_proxy_t *proxy, const run_call_t *call,
                              cuda_stream_t stream) {
  gpu_transfer_t *transfers;
  COLL_TRY(base_alloc(2 * (size_t)proxy->comm->size, sizeof *transfers, "blocks of alltoallv",
                      (void **)&transfers));
  size_t count = list_blocks(call, transfers);
  coll_status_t status = COLL_OK;
  if (count > 0) status = queue(proxy, transfers, count, window_of(proxy->comm), stream);
  free(transfers);
  return status;
}
