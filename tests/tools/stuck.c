/*
 * A rank for collrun_table.sh. Argument "stop": rank 1 stops itself between two calls. Argument
 * "fail": rank 2 exits with code 5 while rank 0 waits for rank 1 in a communicator of these two,
 * as the file `waits` says.
 */
#include <coll.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int check(coll_status_t status) {
  if (status != COLL_OK) fprintf(stderr, "%s\n", coll_last_error(NULL));
  return status != COLL_OK;
}

static int stop(coll_comm_t comm, int rank) {
  float values[5] = {1, 2, 3, 4, 5};
  if (check(coll_broadcast(values, values, 5, COLL_FLOAT32, 0, comm, NULL))) return 1;
  if (rank == 1) raise(SIGSTOP);
  return check(coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, comm, NULL));
}

static int fail(coll_comm_t comm, int rank) {
  coll_comm_t child;
  if (check(coll_comm_split(comm, rank == 2, rank, NULL, &child))) return 1;
  while (rank == 2 && access("waits", F_OK) != 0) poll(NULL, 0, 1);
  if (rank == 2) _exit(5);
  while (rank == 1) pause();
  return check(coll_barrier(child, NULL));
}

int main(int argc, char **argv) {
  coll_comm_t comm;
  int rank;
  if (argc < 2 || check(coll_comm_create_env(NULL, &comm))) return 1;
  if (check(coll_comm_rank(comm, &rank))) return 1;
  int code = strcmp(argv[1], "stop") == 0 ? stop(comm, rank) : fail(comm, rank);
  return check(coll_comm_destroy(comm)) || code;
}
