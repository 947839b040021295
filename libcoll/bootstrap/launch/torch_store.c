/*
 * A client of PyTorch's TCPStore, which torchrun's agent serves at MASTER_ADDR, MASTER_PORT. A
 * request is a byte, then its arguments in the server's byte order; texts have an 8-byte length in
 * front. The connection begins with a VALIDATE. PyTorch 2.1 and later.
 *
 * Keys contain what identifies the run and its restart, because the store outlives the processes.
 *
 * Source: torch/csrc/distributed/c10d/TCPStoreBackend.hpp (the numbers of requests).
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/fork.h"
#include "base/net/socket.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/rendezvous/dialer.h"
#include "bootstrap/rendezvous/wire.h"
#include "plan/plan.h"

enum {
  REQUEST_VALIDATE = 0,
  REQUEST_SET = 1,
  REQUEST_GET = 3,
  REQUEST_WAIT = 6,
  REQUEST_COUNT_KEYS = 7
};

#define VALIDATE_NUMBER 0x3C85F7CEu
#define STOP_WAITING 0
#define RETRY_NS 50000000u
#define FIRST_ANSWER_NS 3000000000u

static int connection; /* 0: none */
static int own_rank;

/* The connection is the parent's, and base/net/socket.h closes it in a child. */
static void forget(void) {
  connection = 0;
}
BASE_FORK_PART(NULL, forget);

/* ---- requests -------------------------------------------------------------------------------*/

typedef struct request {
  char bytes[2048];
  size_t length;
} request_t;

static void add(request_t *request, const void *bytes, size_t length) {
  if (length > sizeof request->bytes - request->length) return; /* keys and texts are shorter */
  memcpy(request->bytes + request->length, bytes, length);
  request->length += length;
}

static request_t begin_request(uint8_t number) {
  request_t request = {.length = 0};
  add(&request, &number, 1);
  return request;
}

static void add_number(request_t *request, uint64_t number) {
  add(request, &number, sizeof number);
}

static void add_text(request_t *request, const char *text) {
  add_number(request, strlen(text));
  add(request, text, strlen(text));
}

static coll_status_t fail_store(const char *what) {
  return base_fail(
      COLL_ERROR_SYSTEM,
      "rank %d: torchrun's store at %s port %s %s (COLL_LAUNCHER=variables does without "
      "the store)",
      own_rank, launch_value("MASTER_ADDR"), launch_value("MASTER_PORT"), what);
}

static coll_status_t send_request(const request_t *request, uint64_t deadline_ns) {
  if (wire_send(connection, request->bytes, request->length, deadline_ns)) return COLL_OK;
  return fail_store("hung up");
}

/* ---- connecting -----------------------------------------------------------------------------*/

static coll_status_t find_store(dialer_t *dialer) {
  const char *host = launch_value("MASTER_ADDR");
  char who[DIALER_TEXT_BYTES];
  int64_t port;
  if (host == NULL || launch_value("MASTER_PORT") == NULL) {
    return base_fail(COLL_ERROR_INVALID, "torchrun should set MASTER_ADDR and MASTER_PORT");
  }
  COLL_TRY(launch_number("MASTER_PORT", 1, UINT16_MAX, &port));
  snprintf(who, sizeof who, "rank %d waits for torchrun's store at %s port %d", own_rank, host,
           (int)port);
  *dialer = dialer_begin(NULL, host, (uint16_t)port, who);
  return COLL_OK;
}

static coll_status_t dial(dialer_t *dialer, uint64_t deadline_ns) {
  coll_status_t status = dialer_connect(dialer, deadline_ns, &connection);
  if (status == COLL_OK) return COLL_OK;
  connection = 0;
  return base_fail(status == COLL_ERROR_TIMEOUT ? COLL_ERROR_SYSTEM : status,
                   "rank %d: torchrun's store at %s port %d cannot be reached: %s", own_rank,
                   dialer->host, (int)dialer->port, dialer->why);
}

/* An older store takes the requests for something else and waits for the rest of it. */
static coll_status_t validate(uint64_t deadline_ns, bool *hangs_up) {
  const uint32_t number = VALIDATE_NUMBER;
  const uint8_t count_keys = REQUEST_COUNT_KEYS;
  uint64_t count, first_ns = base_clock_now_ns() + FIRST_ANSWER_NS;
  request_t request = begin_request(REQUEST_VALIDATE);
  add(&request, &number, sizeof number);
  add(&request, &count_keys, sizeof count_keys);
  *hangs_up = !wire_send(connection, request.bytes, request.length, deadline_ns);
  bool answers =
      base_deadline_poll(connection, POLLIN, first_ns < deadline_ns ? first_ns : deadline_ns);
  if (answers && wire_recv(connection, &count, sizeof count, deadline_ns)) return COLL_OK;
  base_socket_close(connection);
  connection = 0;
  *hangs_up = *hangs_up || answers;
  if (*hangs_up) return fail_store("hung up");
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "torchrun's store at %s port %s does not answer as that of PyTorch 2.1 or later",
                   launch_value("MASTER_ADDR"), launch_value("MASTER_PORT"));
}

/* A service in front of the store hangs up until the store is there. */
static coll_status_t connect_store(uint64_t deadline_ns) {
  dialer_t dialer;
  bool has_hung_up = false; /* what then is silent is not taken for an older store */
  COLL_TRY(find_store(&dialer));
  for (;;) {
    bool hangs_up = false;
    COLL_TRY(dial(&dialer, deadline_ns));
    coll_status_t status = validate(deadline_ns, &hangs_up);
    has_hung_up = has_hung_up || hangs_up;
    if (status == COLL_OK || !has_hung_up) return status;
    if (base_clock_now_ns() + RETRY_NS >= deadline_ns) return fail_store("hung up");
    dialer_failed(&dialer, "it hung up");
    base_clock_sleep_ns(RETRY_NS);
  }
}

static coll_status_t torch_open(uint64_t deadline_ns, int *rank, int *size) {
  int64_t found_rank, found_size;
  COLL_TRY(launch_number("WORLD_SIZE", 1, PLAN_RANKS_MAX, &found_size));
  COLL_TRY(launch_number("RANK", 0, found_size - 1, &found_rank));
  own_rank = (int)found_rank;
  if (connection == 0 && found_size > 1) COLL_TRY(connect_store(deadline_ns));
  *rank = (int)found_rank;
  *size = (int)found_size;
  return COLL_OK;
}

/* ---- sharing --------------------------------------------------------------------------------*/

static const char *or_none(const char *name) {
  return launch_value(name) != NULL ? launch_value(name) : "none";
}

static coll_status_t set(const char *key, const char *text, uint64_t deadline_ns) {
  request_t request = begin_request(REQUEST_SET);
  add_text(&request, key);
  add_text(&request, text);
  return send_request(&request, deadline_ns);
}

/* Until rank 0 has set the key. */
static coll_status_t wait_for(const char *key, uint64_t deadline_ns) {
  uint8_t answer;
  request_t request = begin_request(REQUEST_WAIT);
  add_number(&request, 1);
  add_text(&request, key);
  COLL_TRY(send_request(&request, deadline_ns));
  if (!base_deadline_poll(connection, POLLIN, deadline_ns)) {
    base_socket_close(connection); /* what it answers later is not wanted */
    connection = 0;
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank 0 is missing: it has not called coll_comm_create_env in time "
                     "(nothing of it in torchrun's store at %s port %s)",
                     own_rank, launch_value("MASTER_ADDR"), launch_value("MASTER_PORT"));
  }
  if (!wire_recv(connection, &answer, sizeof answer, deadline_ns)) return fail_store("hung up");
  return answer == STOP_WAITING ? COLL_OK : fail_store("gave an unknown answer");
}

static coll_status_t get(const char *key, uint64_t deadline_ns, char text[LAUNCH_TEXT_BYTES]) {
  uint64_t bytes = 0;
  request_t request = begin_request(REQUEST_GET);
  add_text(&request, key);
  COLL_TRY(send_request(&request, deadline_ns));
  if (!wire_recv(connection, &bytes, sizeof bytes, deadline_ns)) return fail_store("hung up");
  if (bytes >= LAUNCH_TEXT_BYTES) return fail_store("gave too long a value");
  if (!wire_recv(connection, text, bytes, deadline_ns)) return fail_store("hung up");
  text[bytes] = '\0';
  return COLL_OK;
}

static coll_status_t torch_share(const char *key, uint64_t deadline_ns,
                                 char text[LAUNCH_TEXT_BYTES]) {
  char full[512];
  snprintf(full, sizeof full, "libcoll/%.200s/%.32s/%.32s/%s", or_none("TORCHELASTIC_RUN_ID"),
           or_none("TORCHELASTIC_RESTART_COUNT"), or_none("WORLD_SIZE"), key);
  if (own_rank == 0) return set(full, text, deadline_ns);
  COLL_TRY(wait_for(full, deadline_ns));
  return get(full, deadline_ns, text);
}

const launch_store_t launch_store_torch = {
    .name = "torchrun's store", .open = torch_open, .share = torch_share};
