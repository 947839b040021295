/*
 * A user's first program, built against the installed library with the flags that pkg-config
 * prints.
 */
#include <coll.h>

int main(void) {
  coll_comm_t comm;
  float mine = 3, sum = 0;
  if (coll_comm_create_env(NULL, &comm) != COLL_OK) return 1;
  if (coll_allreduce(&mine, &sum, 1, COLL_FLOAT32, COLL_SUM, comm, NULL) != COLL_OK) return 2;
  if (coll_comm_destroy(comm) != COLL_OK) return 3;
  return sum == 3 ? 0 : 4;
}
