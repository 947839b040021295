/* A step is a list of transfers that go on at the same time. A transfer that receives summands adds
 * them in pieces that stay in the cache. Calls of few bytes send to all hosts at once; larger ones
 * go around the ring of the hosts. */
#include "bench/limit_moves.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/atomics.h"
#include "base/status.h"
#include "bench/copy_kernel.h"

#define PIECE_BYTES ((size_t)128 << 10) /* of summands */
#define AT_ONCE_MAX ((size_t)64 << 10)  /* calls of more bytes use the ring */
#define STRIPE_MIN ((size_t)16 << 10)   /* smaller transfers use one socket */

enum { TRANSFERS_MAX = 4 * LIMIT_LINKS_HOSTS_MAX };

typedef struct transfer {
  int fd;
  bool sends;
  char *data; /* of summands: a piece */
  size_t bytes, done;
  /* If set: what is received is added to summand, and the sum stored in sum. */
  const char *summand;
  char *sum;
  size_t summed;
} transfer_t;

typedef struct step {
  transfer_t transfers[TRANSFERS_MAX];
  int count;
} step_t;

/* ---- transfers */

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Adds the whole elements that have arrived, and moves what is left to the front of the piece. */
static void add_up(transfer_t *transfer) {
  size_t arrived = transfer->done - transfer->summed;
  size_t whole = arrived / sizeof(float) * sizeof(float);
  void *dst = transfer->sum + transfer->summed;
  const void *sources[] = {transfer->summand + transfer->summed, transfer->data};
  bench_copy_vectors(&dst, 1, 1, sources, 2, whole);
  memmove(transfer->data, transfer->data + whole, arrived - whole);
  transfer->summed += whole;
}

static ssize_t move_bytes(const limit_moves_t *moves, transfer_t *transfer) {
  size_t left = min_size(transfer->bytes - transfer->done, moves->variant->call_bytes);
  if (transfer->sends) {
    return send(transfer->fd, transfer->data + transfer->done, left, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (transfer->sum == NULL) {
    return recv(transfer->fd, transfer->data + transfer->done, left, MSG_DONTWAIT);
  }
  size_t held = transfer->done - transfer->summed;
  return recv(transfer->fd, transfer->data + held, min_size(left, PIECE_BYTES - held),
              MSG_DONTWAIT);
}

/* Moves what can be moved now. *moved is set if that was anything. */
static coll_status_t advance(const limit_moves_t *moves, transfer_t *transfer, bool *moved) {
  ssize_t bytes = move_bytes(moves, transfer);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return COLL_OK;
  if (bytes < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot move data between ranks");
  if (bytes == 0) return base_fail(COLL_ERROR_SYSTEM, "another rank has ended");
  transfer->done += (size_t)bytes;
  if (transfer->sum != NULL) add_up(transfer);
  *moved = true;
  return COLL_OK;
}

static void wait_for_any(const limit_moves_t *moves, const step_t *step) {
  struct pollfd waits[TRANSFERS_MAX];
  nfds_t count = 0;
  if (moves->variant->spins) {
    if (moves->yields) sched_yield();
    base_cpu_relax();
    return;
  }
  for (int i = 0; i < step->count; i++) {
    const transfer_t *transfer = &step->transfers[i];
    if (transfer->done == transfer->bytes) continue;
    waits[count++] = (struct pollfd){transfer->fd, transfer->sends ? POLLOUT : POLLIN, 0};
  }
  (void)poll(waits, count, -1);
}

static coll_status_t run(const limit_moves_t *moves, step_t *step) {
  for (;;) {
    bool moved = false, left = false;
    for (int i = 0; i < step->count; i++) {
      transfer_t *transfer = &step->transfers[i];
      if (transfer->done < transfer->bytes) COLL_TRY(advance(moves, transfer, &moved));
      if (transfer->done < transfer->bytes) left = true;
    }
    if (!left) break;
    if (!moved) wait_for_any(moves, step);
  }
  step->count = 0;
  return COLL_OK;
}

/* Adds the transfer to or from that rank, as one per socket. */
static void add(const limit_moves_t *moves, step_t *step, int peer, transfer_t whole) {
  const limit_variant_t *variant = moves->variant;
  int sockets = whole.bytes < STRIPE_MIN ? 1 : variant->sockets;
  size_t share = base_round_up(whole.bytes / (size_t)sockets, sizeof(float));
  for (int i = 0; i < sockets; i++) {
    transfer_t part = whole;
    size_t at = share * (size_t)i;
    part.fd = moves->links->sockets[peer][variant->first_socket + i];
    part.bytes = i + 1 < sockets ? share : whole.bytes - at;
    if (whole.sum == NULL) {
      part.data += at;
    } else {
      part.data += PIECE_BYTES * (size_t)i;
      part.sum += at;
      part.summand += at;
    }
    step->transfers[step->count++] = part;
  }
}

static void add_send(const limit_moves_t *moves, step_t *step, int peer, const char *data,
                     size_t bytes) {
  add(moves, step, peer,
      (transfer_t){.sends = true, .data = (char *)(uintptr_t)data, .bytes = bytes});
}

static void add_receive(const limit_moves_t *moves, step_t *step, int peer, char *data,
                        size_t bytes) {
  add(moves, step, peer, (transfer_t){.data = data, .bytes = bytes});
}

/* ---- ranks and passes over memory */

static int host_of(const limit_moves_t *moves) {
  return moves->links->rank / moves->links->per_host;
}

/* The rank of this rank's number on the host that lies `distance` hosts further on. */
static int counterpart(const limit_moves_t *moves, int distance) {
  const limit_links_t *links = moves->links;
  int host = (host_of(moves) + distance + links->hosts) % links->hosts;
  return host * links->per_host + links->rank % links->per_host;
}

/* Stores the sum of `terms` blocks of the source, or of copies of the first if they are one. */
static void reduce_blocks(char *dst, const char *source, int terms, size_t bytes) {
  const void *sources[LIMIT_LINKS_RANKS_MAX];
  void *to = dst;
  for (int i = 0; i < terms; i++) sources[i] = source + bytes * (size_t)i;
  bench_copy_vectors(&to, 1, 1, sources, terms, bytes);
}

static void copy(char *dst, const char *source, size_t bytes) {
  if (bytes > 0) memcpy(dst, source, bytes);
}

/* ---- collectives between hosts: `bytes` is that of the share of this rank */

/* Block i of `bytes` split into blocks of whole elements, one per host. */
static size_t block_at(const limit_moves_t *moves, size_t bytes, int host) {
  size_t elements = bytes / sizeof(float);
  return elements * (size_t)host / (size_t)moves->links->hosts * sizeof(float);
}

static size_t block_bytes(const limit_moves_t *moves, size_t bytes, int host) {
  return block_at(moves, bytes, host + 1) - block_at(moves, bytes, host);
}

static int host_at(const limit_moves_t *moves, int distance) {
  int hosts = moves->links->hosts;
  return ((host_of(moves) + distance) % hosts + hosts) % hosts;
}

/* Sends all of `data` to every other host and adds theirs. */
static coll_status_t sum_at_once(limit_moves_t *moves, const char *data, char *sum, size_t bytes) {
  step_t step = {.count = 0};
  int hosts = moves->links->hosts;
  const void *sources[LIMIT_LINKS_HOSTS_MAX];
  void *dst = sum;
  sources[host_of(moves)] = data;
  for (int i = 1; i < hosts; i++) {
    char *received = moves->scratch + bytes * (size_t)i;
    sources[host_at(moves, i)] = received;
    add_send(moves, &step, counterpart(moves, i), data, bytes);
    add_receive(moves, &step, counterpart(moves, i), received, bytes);
  }
  COLL_TRY(run(moves, &step));
  bench_copy_vectors(&dst, 1, 1, sources, hosts, bytes);
  return COLL_OK;
}

/* Sends each host its block of `data` and adds theirs to the own block. */
static coll_status_t scatter_at_once(limit_moves_t *moves, const char *data, char *sum,
                                     size_t bytes) {
  step_t step = {.count = 0};
  int hosts = moves->links->hosts;
  size_t own = block_bytes(moves, bytes, host_of(moves));
  const void *sources[LIMIT_LINKS_HOSTS_MAX];
  void *dst = sum;
  sources[host_of(moves)] = data + block_at(moves, bytes, host_of(moves));
  for (int i = 1; i < hosts; i++) {
    int host = host_at(moves, i);
    char *received = moves->scratch + own * (size_t)i;
    sources[host] = received;
    add_send(moves, &step, counterpart(moves, i), data + block_at(moves, bytes, host),
             block_bytes(moves, bytes, host));
    add_receive(moves, &step, counterpart(moves, i), received, own);
  }
  COLL_TRY(run(moves, &step));
  bench_copy_vectors(&dst, 1, 1, sources, hosts, own);
  return COLL_OK;
}

/* Around the ring of hosts; sums: of all blocks, of which the own one is complete in the end. The
 * own block may go elsewhere, to `result`. */
static coll_status_t scatter_by_ring(limit_moves_t *moves, const char *data, char *sums,
                                     char *result, size_t bytes) {
  step_t step = {.count = 0};
  int hosts = moves->links->hosts;
  const char *from = data;
  for (int i = 1; i < hosts; i++) {
    int out = host_at(moves, -i), in = host_at(moves, -i - 1);
    size_t in_at = block_at(moves, bytes, in);
    transfer_t received = {.data = moves->scratch,
                           .bytes = block_bytes(moves, bytes, in),
                           .summand = data + in_at,
                           .sum = i + 1 == hosts ? result : sums + in_at};
    add_send(moves, &step, counterpart(moves, 1), from + block_at(moves, bytes, out),
             block_bytes(moves, bytes, out));
    add(moves, &step, counterpart(moves, -1), received);
    COLL_TRY(run(moves, &step));
    from = sums;
  }
  return COLL_OK;
}

/* Around the ring of hosts. Block h is at offset at[h] of `all`; this host's is there already. */
static coll_status_t gather_by_ring(limit_moves_t *moves, char *all, const size_t *at,
                                    const size_t *bytes) {
  step_t step = {.count = 0};
  for (int i = 0; i + 1 < moves->links->hosts; i++) {
    int out = host_at(moves, -i), in = host_at(moves, -i - 1);
    add_send(moves, &step, counterpart(moves, 1), all + at[out], bytes[out]);
    add_receive(moves, &step, counterpart(moves, -1), all + at[in], bytes[in]);
    COLL_TRY(run(moves, &step));
  }
  return COLL_OK;
}

static coll_status_t gather_at_once(limit_moves_t *moves, char *all, const size_t *at,
                                    const size_t *bytes) {
  step_t step = {.count = 0};
  int own = host_of(moves);
  for (int i = 1; i < moves->links->hosts; i++) {
    int host = host_at(moves, i);
    add_send(moves, &step, counterpart(moves, i), all + at[own], bytes[own]);
    add_receive(moves, &step, counterpart(moves, i), all + at[host], bytes[host]);
  }
  return run(moves, &step);
}

/* ---- calls */

/* The ranks of a host each reduce a share of the inputs of all of them, exchange it with the other
 * hosts, and copy the shares of the others. */
static coll_status_t allreduce(limit_moves_t *moves, size_t count, const char *send, char *recv) {
  int per_host = moves->links->per_host;
  size_t share = (count + (size_t)per_host - 1) / (size_t)per_host * sizeof(float);
  size_t all = count * sizeof(float), at[LIMIT_LINKS_HOSTS_MAX], bytes[LIMIT_LINKS_HOSTS_MAX];
  const char *data = send;
  if (per_host > 1 && share * (size_t)per_host <= all) {
    reduce_blocks(recv, send, per_host, share);
    data = recv;
  }
  if (all <= AT_ONCE_MAX) {
    COLL_TRY(sum_at_once(moves, data, recv, share));
  } else {
    for (int host = 0; host < moves->links->hosts; host++) {
      at[host] = block_at(moves, share, host);
      bytes[host] = block_bytes(moves, share, host);
    }
    COLL_TRY(scatter_by_ring(moves, data, recv, recv + at[host_of(moves)], share));
    COLL_TRY(gather_by_ring(moves, recv, at, bytes));
  }
  for (int i = 1; i < per_host && share * (size_t)(i + 1) <= all; i++) {
    copy(recv + share * (size_t)i, recv, share);
  }
  return COLL_OK;
}

static coll_status_t reduce_scatter(limit_moves_t *moves, size_t count, const char *send,
                                    char *recv) {
  int per_host = moves->links->per_host, hosts = moves->links->hosts;
  size_t share = count * (size_t)hosts * sizeof(float);
  const char *data = send;
  char *sums = moves->scratch + LIMIT_SOCKETS * PIECE_BYTES;
  if (per_host > 1) {
    sums += share;
    reduce_blocks(sums, send, per_host, share);
    data = sums;
  }
  if (share <= AT_ONCE_MAX) return scatter_at_once(moves, data, recv, share);
  return scatter_by_ring(moves, data, sums, recv, share);
}

static coll_status_t allgather(limit_moves_t *moves, size_t count, const char *send, char *recv) {
  const limit_links_t *links = moves->links;
  size_t block = count * sizeof(float), at[LIMIT_LINKS_HOSTS_MAX], bytes[LIMIT_LINKS_HOSTS_MAX];
  size_t host_block = block * (size_t)links->per_host;
  for (int host = 0; host < links->hosts; host++) {
    at[host] = host_block * (size_t)host + block * (size_t)(links->rank % links->per_host);
    bytes[host] = block;
  }
  copy(recv + at[host_of(moves)], send, block);
  COLL_TRY(block * (size_t)links->ranks <= AT_ONCE_MAX ? gather_at_once(moves, recv, at, bytes)
                                                       : gather_by_ring(moves, recv, at, bytes));
  for (int host = 0; links->per_host > 1 && host < links->hosts; host++) {
    for (int i = 1; i < links->per_host; i++) {
      char *to =
          recv + host_block * (size_t)host + block * (size_t)((links->rank + i) % links->per_host);
      copy(to, recv + at[host], block);
    }
  }
  return COLL_OK;
}

static coll_status_t alltoall(limit_moves_t *moves, size_t count, const char *send, char *recv) {
  step_t step = {.count = 0};
  size_t block = count * sizeof(float) * (size_t)moves->links->per_host;
  size_t own = block * (size_t)host_of(moves);
  for (int i = 1; i < moves->links->hosts; i++) {
    size_t to = block * (size_t)host_at(moves, i), from = block * (size_t)host_at(moves, -i);
    add_send(moves, &step, counterpart(moves, i), send + to, block);
    add_receive(moves, &step, counterpart(moves, -i), recv + from, block);
  }
  copy(recv + own, send + own, block);
  return run(moves, &step);
}

/* To the next rank, from the previous one; within a host a copy. */
static coll_status_t shift(limit_moves_t *moves, size_t count, const char *send, char *recv) {
  step_t step = {.count = 0};
  const limit_links_t *links = moves->links;
  int local = links->rank % links->per_host;
  int next = (links->rank + 1) % links->ranks;
  int previous = (links->rank + links->ranks - 1) % links->ranks;
  size_t bytes = count * sizeof(float);
  if (local + 1 == links->per_host) add_send(moves, &step, next, send, bytes);
  if (local == 0) {
    add_receive(moves, &step, previous, recv, bytes);
  } else {
    copy(recv, send, bytes);
  }
  return run(moves, &step);
}

bool limit_moves_support(coll_collective_t collective) {
  return collective == COLL_ALLREDUCE || collective == COLL_REDUCE_SCATTER ||
         collective == COLL_ALLGATHER || collective == COLL_ALLTOALL || collective == COLL_SENDRECV;
}

coll_status_t limit_moves_make(const limit_links_t *links, size_t bytes, limit_moves_t *moves) {
  size_t at_once = AT_ONCE_MAX * (size_t)links->hosts;
  *moves = (limit_moves_t){.links = links};
  moves->scratch_bytes = LIMIT_SOCKETS * PIECE_BYTES + 2 * bytes + at_once;
  return base_alloc(moves->scratch_bytes, 1, "the data that arrive", (void **)&moves->scratch);
}

coll_status_t limit_moves_call(limit_moves_t *moves, coll_collective_t collective, size_t count,
                               const void *send, void *recv) {
  switch (collective) {
    case COLL_ALLREDUCE: return allreduce(moves, count, send, recv);
    case COLL_REDUCE_SCATTER: return reduce_scatter(moves, count, send, recv);
    case COLL_ALLGATHER: return allgather(moves, count, send, recv);
    case COLL_ALLTOALL: return alltoall(moves, count, send, recv);
    case COLL_SENDRECV: return shift(moves, count, send, recv);
    default: return base_fail(COLL_ERROR_UNSUPPORTED, "limit_net does not move this collective");
  }
}
