/*
 * The lower rank of a pair leads: each of its messages says what the other one does next. A hop is
 * half of a round trip of such a message. Long messages go both ways at once, as in most plans,
 * then one way: where it is the cores at the ends that take long, both ways take longer. They grow
 * as long as the last ones took no time to speak of, so over a slow network few bytes are sent.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "calibrate/network.h"

enum {
  TRIPS = 16,
  TRIPS_MIN = 3,
  GROWTH = 4,
  REPEATS = 3,    /* if there is time, of which a core may be given to others once */
  REPEATS_MIN = 2 /* even if there is not: a packet was lost, or an end was stopped */
};

/* Of long trips there are fewer. Containers of one machine are not so far away: it is busy. */
#define TRIPS_NS UINT64_C(10000000)
#define BYTES_MIN ((size_t)4 << 10)
#define BYTES_MAX ((size_t)256 << 10)
#define LONG_PS UINT64_C(50000000) /* what takes so long, and a trip, is long enough */
/* Messages of the last size are repeated as long as that fits into this time. */
#define BOTH_WAYS_NS UINT64_C(1000000)
#define ONE_WAY_NS UINT64_C(400000)
#define WIRE_NS UINT64_C(10000000) /* to connect another wire than sockets */

typedef enum order_kind {
  ORDER_ANSWER,
  ORDER_TAKE,     /* a long message follows, to be answered */
  ORDER_EXCHANGE, /* the same, and one of the other rank at the same time */
  ORDER_END
} order_kind_t;

typedef struct order {
  int32_t kind;
  int32_t is_alone;         /* of an answer */
  uint64_t bytes;           /* of long messages */
  comm_network_cost_t cost; /* of ORDER_END */
} order_t;

typedef struct pair {
  const network_link_t *link;
  const char *route; /* of transport_ops_t */
  uint64_t key;      /* in the cache */
  uint64_t end_ns;   /* of long messages: CALIBRATE_NETWORK_PAIR_NS */
  uint32_t megabits; /* of the slower host; 0: not known */
  bool is_one_machine;
  uint64_t send_ps; /* of the last order */
  bool is_alone;    /* both processes are, as far as the other one has said */
  char *out, *in;   /* [BYTES_MAX] */
} pair_t;

static coll_status_t send_data(const pair_t *pair, const void *data, size_t bytes) {
  return calibrate_link_exchange(pair->link, data, bytes, NULL, 0);
}

static coll_status_t recv_data(const pair_t *pair, void *data, size_t bytes) {
  return calibrate_link_exchange(pair->link, NULL, 0, data, bytes);
}

static coll_status_t exchange_long(const pair_t *pair, size_t bytes) {
  return calibrate_link_exchange(pair->link, pair->out, bytes, pair->in, bytes);
}

/* ---- the rank that leads --------------------------------------------------------------------*/

/* *took_ps: from the order to its answer. Sets pair->send_ps. */
static coll_status_t give(pair_t *pair, order_kind_t kind, size_t bytes, uint64_t *took_ps) {
  order_t order = {.kind = (int32_t)kind, .bytes = bytes};
  uint64_t begin_ns = base_clock_now_ns();
  COLL_TRY(send_data(pair, &order, sizeof order));
  pair->send_ps = (base_clock_now_ns() - begin_ns) * 1000;
  if (kind == ORDER_EXCHANGE) COLL_TRY(exchange_long(pair, bytes));
  if (kind == ORDER_TAKE) COLL_TRY(send_data(pair, pair->out, bytes));
  COLL_TRY(recv_data(pair, &order, sizeof order));
  pair->is_alone = pair->is_alone && order.is_alone;
  *took_ps = (base_clock_now_ns() - begin_ns) * 1000;
  return COLL_OK;
}

/* hop_ps is 0 if an end is too busy. */
static coll_status_t time_hop(pair_t *pair, comm_network_cost_t *cost) {
  uint64_t trips_ns[TRIPS], took_ps, end_ns = base_clock_now_ns() + TRIPS_NS;
  int count = 0;
  cost->send_ps = UINT64_MAX;
  do {
    COLL_TRY(give(pair, ORDER_ANSWER, 0, &took_ps));
    if (pair->send_ps < cost->send_ps) cost->send_ps = pair->send_ps;
    trips_ns[count++] = took_ps / 1000;
  } while (count < TRIPS_MIN || (count < TRIPS && base_clock_now_ns() < end_ns));
  cost->hop_ps = calibrate_network_hop_ps(trips_ns, count);
  if (pair->is_one_machine && count < TRIPS) cost->hop_ps = 0;
  if (cost->send_ps > cost->hop_ps) cost->send_ps = cost->hop_ps;
  return COLL_OK;
}

/* Whether something that takes so long would end in time. */
static bool has_time(const pair_t *pair, uint64_t took_ps, uint64_t end_ns) {
  uint64_t then_ns = base_clock_now_ns() + took_ps / 1000;
  return then_ns < end_ns && then_ns < pair->end_ns;
}

/* The same of what is then repeated. */
static bool has_time_to_repeat(const pair_t *pair, uint64_t took_ps, uint64_t end_ns) {
  return has_time(pair, REPEATS_MIN * took_ps, end_ns);
}

/* *bytes_ps: the shortest time that a long message needs beside a trip, of the order and the
 * answer. What one of the first takes longer than the other is no time of the pair's. */
static coll_status_t repeat(pair_t *pair, order_kind_t kind, size_t bytes, uint64_t trip_ps,
                            uint64_t end_ns, uint64_t *bytes_ps) {
  uint64_t took_ps, least_ps = UINT64_MAX, most_ps = 0;
  int count = 0;
  do {
    COLL_TRY(give(pair, kind, bytes, &took_ps));
    if (took_ps < least_ps) least_ps = took_ps;
    if (took_ps > most_ps) most_ps = took_ps;
    if (++count == REPEATS_MIN) pair->end_ns += (most_ps - least_ps) / 1000;
  } while (count < REPEATS_MIN || has_time(pair, least_ps, count < REPEATS ? UINT64_MAX : end_ns));
  *bytes_ps = least_ps > trip_ps ? least_ps - trip_ps : 0;
  return COLL_OK;
}

/* *bytes: as many as take long, if there is time for these, else fewer. The first ones make room
 * for more in the connections. */
static coll_status_t time_both_ways(pair_t *pair, uint64_t trip_ps, size_t *bytes,
                                    uint64_t *bytes_ps) {
  uint64_t end_ns = base_clock_now_ns() + BOTH_WAYS_NS, again_ps;
  *bytes = BYTES_MIN;
  COLL_TRY(repeat(pair, ORDER_EXCHANGE, *bytes, trip_ps, 0, bytes_ps));
  while (*bytes < BYTES_MAX && (*bytes_ps < LONG_PS || *bytes_ps < trip_ps) &&
         has_time_to_repeat(pair, trip_ps + GROWTH * *bytes_ps, UINT64_MAX)) {
    *bytes *= GROWTH;
    COLL_TRY(repeat(pair, ORDER_EXCHANGE, *bytes, trip_ps, 0, bytes_ps));
  }
  if (!has_time_to_repeat(pair, trip_ps + *bytes_ps, end_ns)) return COLL_OK;
  COLL_TRY(repeat(pair, ORDER_EXCHANGE, *bytes, trip_ps, end_ns, &again_ps));
  if (again_ps < *bytes_ps) *bytes_ps = again_ps;
  return COLL_OK;
}

/* Where trips take longer, the bytes cannot be told from them, and TCP begins with few in each:
 * then the interfaces' word counts. */
static uint64_t kib_of_trip_ps(const pair_t *pair, uint64_t took_ps, size_t bytes) {
  if (pair->megabits > 0) return UINT64_C(8192000000) / pair->megabits + 1;
  return took_ps / (bytes / 1024) + 1;
}

/* now: of a hop. Leaves *cost as it is where an end is too busy, or not alone. */
static coll_status_t measure(pair_t *pair, const comm_network_cost_t *now,
                             comm_network_cost_t *cost) {
  comm_network_cost_t made = *now;
  uint64_t trip_ps = 2 * now->hop_ps, bytes_ps;
  size_t bytes;
  COLL_TRY(time_both_ways(pair, trip_ps, &bytes, &bytes_ps));
  if (bytes_ps < trip_ps) {
    made.both_ways_ps = kib_of_trip_ps(pair, trip_ps + bytes_ps, bytes);
  } else {
    made.both_ways_ps = bytes_ps / (bytes / 1024);
  }
  made.one_way_ps = made.both_ways_ps;
  if (bytes_ps >= trip_ps && has_time_to_repeat(pair, trip_ps + bytes_ps, UINT64_MAX)) {
    uint64_t end_ns = base_clock_now_ns() + ONE_WAY_NS;
    COLL_TRY(repeat(pair, ORDER_TAKE, bytes, trip_ps, end_ns, &bytes_ps));
    made.one_way_ps = bytes_ps / (bytes / 1024);
  }
  pair->is_alone = pair->is_alone && calibrate_network_is_alone();
  if (!pair->is_alone || !calibrate_network_is_plausible(&made)) return COLL_OK;
  *cost = made;
  calibrate_network_save(pair->key, cost);
  return COLL_OK;
}

/* A wire connects with the first messages, which sockets carry. */
static coll_status_t await_wire(pair_t *pair) {
  uint64_t took_ps, end_ns = base_clock_now_ns() + WIRE_NS;
  COLL_TRY(give(pair, ORDER_ANSWER, 0, &took_ps)); /* now the other one has begun, too */
  while (strcmp(pair->route, "tcp") != 0 && base_clock_now_ns() < end_ns) {
    COLL_TRY(give(pair, ORDER_ANSWER, 0, &took_ps));
  }
  return COLL_OK;
}

static coll_status_t lead(pair_t *pair, comm_network_cost_t *cost) {
  const comm_network_cost_t none = {0};
  comm_network_cost_t now = {.measured_s = (int64_t)time(NULL)};
  *cost = none;
  bool is_cached = calibrate_network_load(pair->key, cost);
  COLL_TRY(await_wire(pair));
  COLL_TRY(time_hop(pair, &now));
  pair->end_ns = base_clock_now_ns() + CALIBRATE_NETWORK_PAIR_NS;
  bool holds = is_cached && calibrate_network_holds(cost, now.hop_ps, now.measured_s);
  /* Old costs are better than none, those of another network are not. */
  if (!calibrate_network_holds(cost, now.hop_ps, cost->measured_s)) *cost = none;
  if (!holds && now.hop_ps > 0) COLL_TRY(measure(pair, &now, cost));
  const order_t end = {.kind = ORDER_END, .cost = *cost};
  return send_data(pair, &end, sizeof end);
}

/* ---- the other one --------------------------------------------------------------------------*/

/* What it asks for may be of another version. */
static coll_status_t refuse(const pair_t *pair, const order_t *order) {
  struct coll_comm *comm = pair->link->comm;
  coll_status_t status =
      base_fail(COLL_ERROR_INTERNAL,
                "rank %d sends %llu bytes to measure the network, of at most %zu: have all ranks "
                "the same libcoll?",
                pair->link->peer, (unsigned long long)order->bytes, BYTES_MAX);
  return comm_fail(comm, status, comm->rank);
}

static coll_status_t obey(const pair_t *pair, const order_t *order) {
  if (order->bytes > BYTES_MAX) return refuse(pair, order);
  if (order->kind == ORDER_EXCHANGE) COLL_TRY(exchange_long(pair, order->bytes));
  if (order->kind == ORDER_TAKE) COLL_TRY(recv_data(pair, pair->in, order->bytes));
  const order_t answer = {.is_alone = calibrate_network_is_alone()};
  return send_data(pair, &answer, sizeof answer);
}

static coll_status_t follow(const pair_t *pair, comm_network_cost_t *cost) {
  order_t order;
  COLL_TRY(recv_data(pair, &order, sizeof order));
  while (order.kind != ORDER_END) {
    COLL_TRY(obey(pair, &order));
    COLL_TRY(recv_data(pair, &order, sizeof order));
  }
  *cost = order.cost;
  return COLL_OK;
}

static uint32_t slower_of(const comm_network_host_t *one, const comm_network_host_t *other) {
  return one->megabits < other->megabits ? one->megabits : other->megabits;
}

coll_status_t calibrate_network_pair(const network_link_t *link, const comm_network_host_t *own,
                                     const comm_network_host_t *other, comm_network_cost_t *cost) {
  const transport_t *local = link->comm->local;
  const char *route = local->ops->route(local, other->rank);
  pair_t pair = {.link = link,
                 .route = route,
                 .key = calibrate_network_key(own, other, route),
                 .megabits = slower_of(own, other),
                 .is_one_machine = own->kernel != 0 && own->kernel == other->kernel,
                 .is_alone = true};
  COLL_TRY(base_alloc(2, BYTES_MAX, "long messages", (void **)&pair.out));
  pair.in = pair.out + BYTES_MAX;
  memset(pair.out, 1, 2 * BYTES_MAX); /* until then, all pages are one page of zeros */
  coll_status_t status = own->rank < other->rank ? lead(&pair, cost) : follow(&pair, cost);
  free(pair.out);
  return status;
}
