/*
 * One rank has no memory for what the layer needs in a call: its first allocation in that call
 * fails. Either all ranks get the result from the MPI, or all get an error, which says what
 * happened and on which rank. None waits for ever. Prints "scarce ends". With the word "returns",
 * it only finds out whether the MPI itself returns errors as the program asks it to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

#define FAILING 1 /* the rank */

/* ---- malloc and calloc of all libraries: a program comes before these ----------------------*/

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);

static _Thread_local int is_armed, has_failed;

static int fails(const void *caller) {
  Dl_info info;
  if (!is_armed || dladdr(caller, &info) == 0) return 0;
  if (strstr(info.dli_fname, "libcoll-mpi-") == NULL) return 0;
  is_armed = 0;
  has_failed = 1;
  return 1;
}

void *malloc(size_t bytes) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

/* ---- calls ---------------------------------------------------------------------------------*/

static MPI_Comm fresh(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

/* Behind a barrier on another communicator: all ranks have left the calls before. */
static void arm(void) {
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum before the failure");
  has_failed = 0;
  is_armed = rank == FAILING;
}

/* Whether there was an allocation to fail. */
static void disarm(const char *what) {
  expect(rank != FAILING || has_failed, what);
  is_armed = 0;
}

static MPI_Datatype strided(void) {
  MPI_Datatype type;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/* The others have got their errors before this rank frees it, which would end their calls, too. */
static void free_failed(MPI_Comm *comm) {
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum after the failure");
  MPI_Comm_free(comm);
}

/* Every other int of four, from the rank without memory. */
static int bcast_on(MPI_Comm comm, MPI_Datatype type) {
  int data[4] = {rank == FAILING ? 5 : 0, -1, rank == FAILING ? 6 : 0, -1};
  int result = MPI_Bcast(data, 1, type, FAILING, comm);
  int is_right = data[0] == 5 && data[1] == -1 && data[2] == 6 && data[3] == -1;
  expect(result != MPI_SUCCESS || is_right, "what was broadcast");
  return result;
}

/* A call that could not be carried out on one rank: its result on each. */
static void expect_failure(int result, const char *what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  expect(result != MPI_SUCCESS, what);
  MPI_Error_string(result, text, &length);
  if (strstr(text, rank == FAILING ? "memory" : "rank 1") != NULL) return;
  fprintf(stderr, "rank %d: %s: the error is \"%s\"\n", rank, what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void no_communicator(void) {
  MPI_Comm comm = fresh();
  arm();
  expect(sum_on(comm) == size, "the first sum on a communicator");
  disarm("an allocation for a communicator");
  for (int i = 0; i < 3; i++) expect(sum_on(comm) == size, "later sums on it");
  MPI_Comm_free(&comm);
}

static void no_type(void) {
  MPI_Comm comm = fresh();
  MPI_Datatype type = strided();
  expect(sum_on(comm) == size, "the sum");
  arm();
  expect(bcast_on(comm, type) == MPI_SUCCESS, "the first call with a datatype");
  disarm("an allocation for a datatype");
  expect(bcast_on(comm, type) == MPI_SUCCESS, "the second call with it");
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
}

static void no_packing(void) {
  MPI_Comm comm = fresh();
  MPI_Datatype type = strided();
  expect(bcast_on(comm, type) == MPI_SUCCESS, "a broadcast");
  arm();
  expect_failure(bcast_on(comm, type), "no memory to pack");
  disarm("an allocation to pack data");
  MPI_Type_free(&type);
  free_failed(&comm);
}

static void no_request(void) {
  int own = 1, all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = fresh();
  expect(sum_on(comm) == size, "the sum");
  arm();
  int result = MPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_SUM, comm, &request);
  disarm("an allocation for a request");
  if (rank == FAILING) {
    expect_failure(result, "no memory for a request");
  } else {
    expect(result == MPI_SUCCESS, "a request");
    expect_failure(MPI_Wait(&request, MPI_STATUS_IGNORE), "the request of another rank");
  }
  free_failed(&comm);
}

/* While the layer measures. */
static void no_choice(void) {
  int data[100] = {0};
  MPI_Comm comm = fresh();
  expect(sum_on(comm) == size, "the sum");
  arm();
  expect_failure(MPI_Bcast(data, 100, MPI_INT, FAILING, comm), "no memory for a choice");
  disarm("an allocation for a choice");
  free_failed(&comm);
}

/* The program is ended in here, if it does not. */
static void return_error(void) {
  MPI_Comm comm = fresh();
  expect(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER) == MPI_SUCCESS, "the error handler");
  MPI_Comm_free(&comm);
}

static void call_without_memory(void) {
  const char *mode = getenv("COLL_MPI_SERVE");
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  no_communicator();
  no_type();
  if (mode != NULL && strcmp(mode, "always") == 0) {
    no_packing();
    no_request();
  } else {
    no_choice();
  }
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum at the end");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "returns") == 0) {
    return_error();
  } else {
    call_without_memory();
  }
  if (rank == 0) puts("scarce ends");
  MPI_Finalize();
  return 0;
}
