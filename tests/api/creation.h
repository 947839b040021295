/*
 * What tests of the creation of communicators have in common: one thread has several ranks.
 */
#ifndef TESTS_API_CREATION_H
#define TESTS_API_CREATION_H

#include <coll.h>
#include <criterion/criterion.h>

#include "harness/harness.h"

/* What waits in vain does so for CREATION_TIMEOUT_S. What ends it must do so in half of that. */
#define CREATION_TIMEOUT_S 120
#define CREATION_RUN_MS (90000 / HARNESS_PATIENCE)

#define OK(call) IS(call, COLL_OK)

#define IS(call, wanted)                                                    \
  do {                                                                      \
    coll_status_t is_status = (call);                                       \
    cr_assert_eq(is_status, wanted, "line %d, %s: %s: %s", __LINE__, #call, \
                 coll_status_string(is_status), coll_last_error(NULL));     \
  } while (0)

/* The thread's last error has this part. */
void says(const char *part);

double now_s(void);
void nap_ms(int ms);
void nap_us(int us);

coll_comm_config_t config_of(int blocking);

/* Queries the communicator until it is done. */
coll_status_t await(coll_comm_t comm);

/* Queries a communicator that works until it no longer does. */
coll_status_t await_failure(coll_comm_t comm);

/* Makes all ranks of a communicator in one group. */
void make(coll_comm_t comms[], int size, int blocking);

/* Makes an allreduce of all ranks in one group, and checks it. */
void sum(coll_comm_t comms[], int size);

void destroy(coll_comm_t comms[], int size);

#endif
