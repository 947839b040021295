/*
 * A program that looks NCCL's functions up: in what is loaded already, or in the library that its
 * argument names. Prints the version and a sum over four ranks of this process.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl/interface.h"

#define RANKS 4

static void *library;

static void *look_up(const char *name) {
  void *found = dlsym(library, name);
  if (found != NULL) return found;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

int main(int count, char **arguments) {
  library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : RTLD_DEFAULT;
  if (library == NULL && count > 1) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  __typeof__(ncclGetVersion) *version = look_up("ncclGetVersion");
  __typeof__(ncclCommInitAll) *init = look_up("ncclCommInitAll");
  __typeof__(ncclGroupStart) *start = look_up("ncclGroupStart");
  __typeof__(ncclGroupEnd) *end = look_up("ncclGroupEnd");
  __typeof__(ncclAllReduce) *sum = look_up("pncclAllReduce");
  __typeof__(ncclCommDestroy) *destroy = look_up("ncclCommDestroy");
  int number, values[RANKS] = {1, 2, 3, 4}, failures = 0;
  ncclComm_t comms[RANKS];
  failures += version(&number) != ncclSuccess;
  failures += init(comms, RANKS, NULL) != ncclSuccess;
  failures += start() != ncclSuccess;
  for (int i = 0; i < RANKS && failures == 0; i++) {
    failures += sum(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[i], NULL) != ncclSuccess;
  }
  failures += end() != ncclSuccess;
  for (int i = 0; i < RANKS && failures == 0; i++) failures += destroy(comms[i]) != ncclSuccess;
  printf("version %d\nsum %d %d %d %d\n", number, values[0], values[1], values[2], values[3]);
  return failures != 0;
}
