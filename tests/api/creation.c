/* One thread has several ranks. */
#include "creation.h"

#include <string.h>
#include <time.h>

void says(const char *part) {
  cr_assert(strstr(coll_last_error(NULL), part) != NULL, "no '%s' in: %s", part,
            coll_last_error(NULL));
}

double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void nap_ms(int ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

void nap_us(int us) {
  nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

coll_comm_config_t config_of(int blocking) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.blocking = blocking;
  config.create_timeout_ms = 1000 * CREATION_TIMEOUT_S;
  return config;
}

coll_status_t await(coll_comm_t comm) {
  coll_status_t status;
  while ((status = coll_comm_error(comm)) == COLL_IN_PROGRESS) nap_ms(1);
  return status;
}

coll_status_t await_failure(coll_comm_t comm) {
  coll_status_t status;
  while ((status = coll_comm_error(comm)) == COLL_OK) nap_ms(1);
  return status;
}

void make(coll_comm_t comms[], int size, int blocking) {
  coll_unique_id_t id;
  const coll_comm_config_t config = config_of(blocking);
  OK(coll_unique_id_create(NULL, &id));
  OK(coll_group_start());
  for (int i = 0; i < size; i++) OK(coll_comm_create(&id, i, size, &config, &comms[i]));
  IS(coll_group_end(), blocking ? COLL_OK : COLL_IN_PROGRESS);
  for (int i = 0; i < size; i++) OK(await(comms[i]));
}

void sum(coll_comm_t comms[], int size) {
  int32_t in[16], out[16];
  OK(coll_group_start());
  for (int rank = 0; rank < size; rank++) {
    in[rank] = rank + 1;
    OK(coll_allreduce(&in[rank], &out[rank], 1, COLL_INT32, COLL_SUM, comms[rank], NULL));
  }
  OK(coll_group_end());
  for (int rank = 0; rank < size; rank++) cr_assert_eq(out[rank], size * (size + 1) / 2);
}

void destroy(coll_comm_t comms[], int size) {
  for (int rank = 0; rank < size; rank++) OK(coll_comm_destroy(comms[rank]));
}
