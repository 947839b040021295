/*
 * Collectives, and groups of sends and receives, among GPUs of several hosts, and among those of
 * one that cannot access each other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "gpu/gpu.h"
#include "gpu/hosts.h"
#include "harness/sample.h"

TestSuite(gpu_hosts, .timeout = 120 * HARNESS_BUILD_PATIENCE);

/* ---- collectives -----------------------------------------------------------------------------*/

#ifdef __SANITIZE_THREAD__ /* with which large calls take minutes */
static const size_t counts[] = {0, 1, 1000, 1100001};
#else
static const size_t counts[] = {0, 1, 3, 1000, 70001, 4500001};
#endif

static int ask(hosts_side_t *side, coll_collective_t c, size_t count, coll_dtype_t dtype,
               coll_op_t op, bool in_place) {
  coll_stream_t stream = count % 3 == 2 ? NULL : side->streams[count % 2];
  const party_style_t style = {.gpus = side->gpus, .stream = stream, .in_place = in_place};
  const question_t q = {.collective = c,
                        .size = side->self.size,
                        .root = side->self.size - 1,
                        .count = c == COLL_BARRIER ? 0 : count,
                        .dtype = dtype,
                        .op = op,
                        .seed = count + 7};
  return party_ask(&side->self, &q, &style);
}

/* The largest are in several pieces, of which the last is short. */
static int ask_up_to(hosts_side_t *side, size_t most) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (!base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= most; i++) {
      bool is_large = counts[i] > 1000000;
      size_t count = counts[i] / (c != COLL_ALLREDUCE && is_large ? (size_t)side->self.size : 1);
      bool once = is_large && !harness_full();
      for (int in_place = once ? c % 2 : 0; in_place < (once ? c % 2 + 1 : 2); in_place++) {
        PARTY_TRY(ask(side, (coll_collective_t)c, count, COLL_FLOAT32, COLL_SUM, in_place == 1));
      }
    }
  }
  return 0;
}

static int ask_all(hosts_side_t *side) {
  return ask_up_to(side, SIZE_MAX);
}

static int ask_small(hosts_side_t *side) {
  return ask_up_to(side, 100000);
}

Test(gpu_hosts, every_collective) {
  HOSTS_RUN(2, {.hosts = 2, .body = ask_all});
  HOSTS_RUN(4, {.hosts = 2, .body = ask_all});
}

Test(gpu_hosts, every_collective_on_one_host) {
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = ask_all});
  HOSTS_RUN(4, {.hosts = 1, .gpus = 4, .apart = "1-3", .body = ask_small});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0", .threads = true, .body = ask_small});
}

Test(gpu_hosts, connected_by_the_first_call) {
  HOSTS_RUN(3, {.hosts = 3, .late = true, .body = ask_all});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .late = true, .body = ask_small});
}

static int ask_dtypes_and_ops(hosts_side_t *side) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bool is_float = dtype >= COLL_FLOAT16 && dtype <= COLL_FLOAT8_E5M2;
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (is_float && op >= COLL_BAND) continue;
      coll_collective_t c = op % 2 == 0 ? COLL_ALLREDUCE : COLL_REDUCE_SCATTER;
      PARTY_TRY(ask(side, c, 301, (coll_dtype_t)dtype, (coll_op_t)op, false));
    }
  }
  return 0;
}

Test(gpu_hosts, every_dtype_and_op) {
  HOSTS_RUN(3, {.hosts = 2, .body = ask_dtypes_and_ops});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .body = ask_dtypes_and_ops});
}

/* Values whose sums depend on their order: the GPU's bits are the host's. The calls on the host
 * come in between, with those on GPUs under way. */
static int compare_with_host(hosts_side_t *side) {
  enum { COUNT = 1200001 };
  size_t bytes = COUNT * sizeof(float);
  float *data, *own = malloc(bytes), *plain = malloc(bytes), half = 0.37f;
  coll_op_t premul;
  if (own == NULL || plain == NULL) abort();
  uint64_t random = (uint64_t)side->self.rank + 1;
  PARTY_TRY(hosts_alloc(side, bytes, (void **)&data));
  PARTY_OK(coll_op_create_premul_sum(&half, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE,
                                     side->self.comm, &premul));
  const coll_op_t ops[] = {COLL_SUM, COLL_AVG, premul};
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < COUNT; j++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      data[j] = own[j] = (float)(int32_t)(random >> 32) * 1e-3f;
    }
    PARTY_OK(
        coll_allreduce(data, data, COUNT, COLL_FLOAT32, ops[i], side->self.comm, side->streams[0]));
    PARTY_OK(coll_allreduce(own, plain, COUNT, COLL_FLOAT32, ops[i], side->self.comm, NULL));
    PARTY_OK(coll_stream_sync(side->streams[0]));
    PARTY_REQUIRE(memcmp(data, plain, bytes) == 0, "op %d: other bits", i);
  }
  PARTY_OK(coll_op_destroy(premul, side->self.comm));
  PARTY_OK(coll_mem_free(data));
  free(own);
  free(plain);
  return 0;
}

Test(gpu_hosts, bits_of_the_host) {
  gpu_setting("COLL_REPRODUCIBLE", "1");
  HOSTS_RUN(4, {.hosts = 2, .body = compare_with_host});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = compare_with_host});
}

/* The latest call's, on the host or on GPUs. */
static int require_algorithm(const hosts_side_t *side, const char *name, bool on_gpus) {
  float plain[3] = {0}, *data;
  coll_stream_t stream = on_gpus ? side->streams[0] : NULL;
  PARTY_TRY(hosts_alloc(side, sizeof plain, (void **)&data));
  PARTY_OK(coll_comm_algo_set(side->self.comm, COLL_ALLREDUCE, name));
  PARTY_OK(coll_allreduce(on_gpus ? data : plain, on_gpus ? data : plain, 3, COLL_FLOAT32, COLL_SUM,
                          side->self.comm, stream));
  if (on_gpus) PARTY_OK(coll_stream_sync(stream));
  const char *used = coll_comm_algo_used(side->self.comm, COLL_ALLREDUCE);
  PARTY_REQUIRE(strcmp(used, name) == 0, "%s in place of %s", used, name);
  PARTY_OK(coll_mem_free(data));
  return 0;
}

static int by_algorithms(hosts_side_t *side) {
  PARTY_TRY(require_algorithm(side, "ring", true));
  PARTY_TRY(require_algorithm(side, "tree", false));
  return require_algorithm(side, "ring", true);
}

Test(gpu_hosts, the_algorithm_that_was_used) {
  HOSTS_RUN(3, {.hosts = 2, .body = by_algorithms});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .threads = true, .body = by_algorithms});
}

/* ---- groups ----------------------------------------------------------------------------------*/

/* Bytes of message number `number` from one rank to another; both ends know them. */
static size_t message_bytes(int from, int to, int number) {
  static const size_t sizes[] = {1, 0, 4000, 1 << 20, (3 << 20) + 5, 64, 9 << 20};
  return sizes[(from * 3 + to * 5 + number * 2) % 7];
}

static unsigned char message_byte(int from, int to, int number, size_t i) {
  return (unsigned char)(from * 31 + to * 17 + number * 7 + (int)(i % 251));
}

enum { MESSAGES = 3 }; /* between two ranks */

typedef struct traffic {
  unsigned char *out[8][MESSAGES], *in[8][MESSAGES];
} traffic_t;

static int make_traffic(const hosts_side_t *side, traffic_t *traffic) {
  int rank = side->self.rank;
  for (int peer = 0; peer < side->self.size; peer++) {
    for (int m = 0; m < MESSAGES; m++) {
      size_t out = message_bytes(rank, peer, m), in = message_bytes(peer, rank, m);
      PARTY_TRY(hosts_alloc(side, out + 1, (void **)&traffic->out[peer][m]));
      PARTY_TRY(hosts_alloc(side, in + 1, (void **)&traffic->in[peer][m]));
      for (size_t i = 0; i < out; i++) traffic->out[peer][m][i] = message_byte(rank, peer, m, i);
      memset(traffic->in[peer][m], 0xee, in + 1);
    }
  }
  return 0;
}

static int check_traffic(const hosts_side_t *side, const traffic_t *traffic) {
  int rank = side->self.rank;
  for (int peer = 0; peer < side->self.size; peer++) {
    for (int m = 0; m < MESSAGES; m++) {
      size_t bytes = message_bytes(peer, rank, m);
      const unsigned char *in = traffic->in[peer][m];
      for (size_t i = 0; i < bytes; i++) {
        PARTY_REQUIRE(in[i] == message_byte(peer, rank, m, i), "from %d, message %d, byte %zu",
                      peer, m, i);
      }
      PARTY_REQUIRE(in[bytes] == 0xee, "from %d, message %d: written beyond", peer, m);
      PARTY_OK(coll_mem_free(traffic->in[peer][m]));
      PARTY_OK(coll_mem_free(traffic->out[peer][m]));
    }
  }
  return 0;
}

/* One group with everything; or one group for each message of a pair, which the even ranks put
 * together with the next. */
static int exchange(hosts_side_t *side, bool is_one) {
  traffic_t traffic;
  coll_comm_t comm = side->self.comm;
  int rank = side->self.rank, even = rank % 2 == 0;
  PARTY_TRY(make_traffic(side, &traffic));
  for (int m = 0; m < MESSAGES; m++) {
    coll_stream_t stream = side->streams[is_one ? 0 : m % 2];
    if (m == 0 || (!is_one && (!even || m == 2))) PARTY_OK(coll_group_start());
    for (int p = 0; p < side->self.size; p++) {
      int peer = (rank + p) % side->self.size;
      if (!is_one && peer == rank) {
        memcpy(traffic.in[peer][m], traffic.out[peer][m], message_bytes(rank, rank, m));
        continue;
      }
      PARTY_OK(coll_send(traffic.out[peer][m], message_bytes(rank, peer, m), COLL_UINT8, peer, comm,
                         stream));
      PARTY_OK(coll_recv(traffic.in[peer][m], message_bytes(peer, rank, m), COLL_UINT8, peer, comm,
                         stream));
    }
    if (m == 2 || (!is_one && (!even || m == 1))) PARTY_OK(coll_group_end());
  }
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_OK(coll_stream_sync(side->streams[1]));
  return check_traffic(side, &traffic);
}

static int exchange_in_one(hosts_side_t *side) {
  return exchange(side, true);
}

static int exchange_in_other_groups(hosts_side_t *side) {
  return exchange(side, false);
}

Test(gpu_hosts, a_group_of_all_messages) {
  HOSTS_RUN(2, {.hosts = 2, .body = exchange_in_one});
  HOSTS_RUN(5, {.hosts = 3, .body = exchange_in_one});
  HOSTS_RUN(3, {.hosts = 1, .gpus = 3, .apart = "0-1", .body = exchange_in_one});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .threads = true, .body = exchange_in_one});
}

Test(gpu_hosts, groups_that_differ_between_ranks) {
  HOSTS_RUN(2, {.hosts = 2, .body = exchange_in_other_groups});
  HOSTS_RUN(4, {.hosts = 2, .body = exchange_in_other_groups});
  HOSTS_RUN(4, {.hosts = 1, .apart = "0", .body = exchange_in_other_groups});
}
