/*
 * A unique id is for one rendezvous. Who uses it again is told so, and not that the process that
 * has made it died.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "harness/party.h"
#include "rendezvous_scenario.h"

#define LIMIT_MS 120000

/* As a rank of two. */
static coll_status_t join(const rendezvous_address_t *address, int rank) {
  char record = 'r', records[2];
  uint64_t session;
  rendezvous_link_t link;
  int failed_rank;
  const rendezvous_rank_t own = {.rank = rank, .size = 2, .record = &record, .record_bytes = 1};
  COLL_TRY(rendezvous_join(address, &own, LIMIT_MS, records, &session, &link));
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(1000000) * LIMIT_MS;
  return rendezvous_finish(&link, COLL_OK, deadline_ns, &failed_rank);
}

static int expect_used(const rendezvous_address_t *address, int rank) {
  coll_status_t status = join(address, rank);
  PARTY_REQUIRE(status == COLL_ERROR_INVALID, "%s: %s", base_status_string(status),
                base_last_error());
  PARTY_REQUIRE(strstr(base_last_error(), "this id has been used") != NULL, "%s",
                base_last_error());
  PARTY_REQUIRE(strstr(base_last_error(), "died") == NULL, "%s", base_last_error());
  return 0;
}

/* Ranks 0 and 1 make a communicator. They and one more process, which has not known the server, try
 * another one: first when nobody listens at the port, then when the server of another id does. */
static int use_again(int process, int size, void *context) {
  (void)size, (void)context;
  rendezvous_address_t *shared = harness_board();
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  if (process == 0) {
    PARTY_OK(rendezvous_server_start(&scenario.address));
    *shared = scenario.address;
  }
  harness_barrier();
  if (process < 2) PARTY_OK(join(shared, process));
  harness_barrier();
  if (expect_used(shared, process % 2) != 0) return 1;
  harness_barrier();
  if (process == 0) {
    rendezvous_address_t other = *shared;
    other.secret.bytes[31]++;
    PARTY_OK(rendezvous_server_start(&other));
  }
  harness_barrier();
  if (expect_used(shared, process % 2) != 0) return 1;
  harness_barrier(); /* process 0 lives until then */
  return 0;
}

Test(rendezvous, says_that_an_id_has_been_used) {
  harness_result_t result;
  cr_assert(harness_run(3, RENDEZVOUS_RUN_MS, use_again, NULL, &result), "%s", result.text);
}

/* Whose process cannot be looked at: that of another host, or of another container. */
static int use_from_afar(int process, int size, void *context) {
  (void)size, (void)context;
  rendezvous_address_t *shared = harness_board();
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  if (process == 0) {
    PARTY_OK(rendezvous_server_start(&scenario.address));
    scenario.address.process.space++;
    scenario.address.port = 1; /* nobody listens there */
    *shared = scenario.address;
  }
  harness_barrier();
  if (process == 1) {
    PARTY_REQUIRE(join(shared, 1) == COLL_ERROR_RANK_LOST, "%s", base_last_error());
    PARTY_REQUIRE(strstr(base_last_error(), "this id has been used, or ") != NULL, "%s",
                  base_last_error());
    PARTY_REQUIRE(strstr(base_last_error(), "died") == NULL, "%s", base_last_error());
  }
  harness_barrier();
  return 0;
}

Test(rendezvous, does_not_know_of_a_process_of_another_host) {
  harness_result_t result;
  cr_assert(harness_run(2, RENDEZVOUS_RUN_MS, use_from_afar, NULL, &result), "%s", result.text);
}
