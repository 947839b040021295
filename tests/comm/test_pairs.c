/* How sends and receives between two ranks are divided into messages: by the route of the pair, not
 * by the shortest messages of any route. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "harness/party.h"
#include "transport/net/net.h"
#include "transport/shm/shm.h"

enum { BYTES = 8 << 20 }; /* four messages of the network's longest, and more */

/* Two ranks on each of two hosts. */
static int create(int rank, int size, coll_comm_t *comm) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.host_id = rank < 2 ? "one" : "two";
  config.interfaces = "=lo";
  unsetenv("COLL_INTERFACES");
  setenv("COLL_INSECURE", "1", 1);
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, harness_board()));
  harness_barrier();
  PARTY_OK(coll_comm_create(harness_board(), rank, size, &config, comm));
  return 0;
}

static int exchange(coll_comm_t comm, int peer, char *data) {
  for (size_t i = 0; i < BYTES; i++) data[i] = (char)(i * 7 + (size_t)comm->rank);
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_send(data, BYTES, COLL_INT8, peer, comm, NULL));
  PARTY_OK(coll_recv(data + BYTES, BYTES, COLL_INT8, peer, comm, NULL));
  PARTY_OK(coll_group_end());
  for (size_t i = 0; i < BYTES; i++) {
    PARTY_REQUIRE(data[BYTES + i] == (char)(i * 7 + (size_t)peer), "element %zu of rank %d", i,
                  peer);
  }
  return 0;
}

static int check_pair(coll_comm_t comm, bool sends, int peer) {
  size_t net_bytes, shm_bytes, scratch_bytes;
  comm_pair_t *pair;
  transport_net_room(false, &net_bytes, &scratch_bytes);
  transport_shm_room(2, SHM_SCOPE_HOST, &shm_bytes, &scratch_bytes);
  PARTY_REQUIRE(shm_bytes < net_bytes, "nothing is longer between hosts");
  PARTY_OK(comm_pair_of(comm, sends, peer, &pair));
  size_t longest = (comm->rank < 2) == (peer < 2) ? shm_bytes : net_bytes;
  PARTY_REQUIRE(pair->run.bound.pass_max == longest, "%s rank %d: messages of %zu bytes, not %zu",
                sends ? "to" : "from", peer, pair->run.bound.pass_max, longest);
  return 0;
}

static int exchange_with_all(int rank, int size, void *context) {
  coll_comm_t comm;
  char *data = malloc(2 * BYTES);
  (void)context;
  PARTY_REQUIRE(data != NULL, "no memory");
  PARTY_TRY(create(rank, size, &comm));
  for (int distance = 1; distance < size; distance++) {
    PARTY_TRY(exchange(comm, rank ^ distance, data));
    PARTY_TRY(check_pair(comm, true, rank ^ distance));
    PARTY_TRY(check_pair(comm, false, rank ^ distance));
  }
  free(data);
  return coll_comm_destroy(comm) != COLL_OK;
}

Test(pairs, of_two_hosts_have_the_long_messages_of_the_network) {
  harness_result_t result;
  cr_assert(harness_run(4, 30000, exchange_with_all, NULL, &result), "%s", result.text);
}
