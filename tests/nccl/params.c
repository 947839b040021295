/*
 * Makes communicators of two ranks of this process and prints NCCL's parameters; then the variables
 * of the environment whose names begin with COLL_ or NCCL_. Exits with 1 if the communicators
 * cannot be made.
 */
#include <stdio.h>
#include <string.h>

#include "nccl/interface.h"

extern char **environ;

void ncclParamDumpAll(void); /* not in older headers of NVIDIA, such as 2.28 */

int main(void) {
  ncclComm_t comms[2];
  bool made = ncclCommInitAll(comms, 2, NULL) == ncclSuccess;
  ncclParamDumpAll();
  for (char **each = environ; *each != NULL; each++) {
    bool is_one = strncmp(*each, "COLL_", 5) == 0 || strncmp(*each, "NCCL_", 5) == 0;
    if (is_one) printf("environment %s\n", *each);
  }
  for (int i = 0; i < 2 && made; i++) ncclCommDestroy(comms[i]);
  return made ? 0 : 1;
}
