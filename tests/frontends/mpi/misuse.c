/*
 * What the layer leaves to the MPI, and bad input. Usage: misuse CASE.
 *   passes    inter-communicators, ops of the program, MAXLOC, one rank
 *   killed    rank 1 writes its process id to the file dying, and kills itself; the others write
 *             the error that their collective returns to the file killed.RANK
 *   fatal     the same with the default error handler
 *   returned  the same with a non-blocking collective of a communicator with an error handler,
 *             which is called once; that of MPI_COMM_WORLD is the default one
 *   forked    a child of rank 0 calls a collective, tests a request and frees a communicator,
 *             while a non-blocking collective of its parent is under way; the parent goes on
 *   errors    wrong arguments come back as errors of the MPI
 *   threads   each of several threads uses a communicator of its own
 *   mixed     requests of collectives and of messages are completed together, in every way; a
 *             datatype is freed before the collective that uses it is done
 *   persistent  a persistent collective with blocking ones between its start and its end
 *   large     a datatype made with a large count
 *   session   a collective on a communicator of a session, without MPI_Init
 *   before, after   a collective before MPI_Init, after MPI_Finalize
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define THREADS 3
#define REQUESTS 3
#if defined(OMPI_MAJOR_VERSION)
#define HAS_MPI_4 (OMPI_MAJOR_VERSION >= 5)
#else
#define HAS_MPI_4 (MPI_VERSION >= 4)
#endif

static void larger(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++) {
    if (((int *)in)[i] > ((int *)inout)[i]) ((int *)inout)[i] = ((int *)in)[i];
  }
}

static void passes(void) {
  MPI_Comm half, inter;
  MPI_Op op;
  int own = rank, all = 0;
  struct {
    int value, rank;
  } pair = {rank % 2, rank}, best;
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum of MPI_COMM_WORLD");
  expect(sum_on(MPI_COMM_SELF) == 1, "the sum of MPI_COMM_SELF");
  MPI_Op_create(larger, 1, &op);
  MPI_Allreduce(&own, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
  expect(all == size - 1, "an op of the program");
  MPI_Op_free(&op);
  MPI_Allreduce(&pair, &best, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
  expect(best.value == 1 && best.rank == 1, "MPI_MAXLOC");
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
  MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, inter);
  expect(all == 1 - rank % 2, "an inter-communicator");
  MPI_Barrier(inter);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

static void kill_self(void) {
  FILE *file = fopen("dying", "w");
  if (file == NULL) _exit(4);
  fprintf(file, "%d\n", (int)getpid());
  fclose(file);
  raise(SIGKILL);
}

/* Writes the error, for launchers may lose what is printed now. */
static void write_error(int error, double begin) {
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length = 0;
  MPI_Error_string(error, text, &length);
  snprintf(name, sizeof name, "killed.%d", rank);
  FILE *file = fopen(name, "w");
  if (file == NULL) _exit(4);
  fprintf(file, "after %s 2 s: %s\n", MPI_Wtime() - begin < 2 ? "less than" : "over", text);
  fclose(file);
  _exit(3);
}

static void killed(int is_fatal) {
  int own = 1, all = 0, result = MPI_SUCCESS;
  if (!is_fatal) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 10; i++) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) kill_self();
  double begin = MPI_Wtime();
  while (result == MPI_SUCCESS) {
    result = MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  write_error(result, begin);
}

static int handled, handled_error;

static void count_error(MPI_Comm *comm, int *error, ...) {
  (void)comm;
  handled++;
  handled_error = *error;
}

/* Whether the functions for one and for several requests return an error. */
static int has_failed(MPI_Request *request) {
  MPI_Status status;
  status.MPI_ERROR = MPI_SUCCESS;
  if (rank == 0) return MPI_Wait(request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  return MPI_Waitall(1, request, &status) == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS;
}

static void returned(void) {
  int own = 1, all = 0, is_returned = 0;
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(count_error, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Barrier(comm);
  if (rank != 1) MPI_Send(&own, 1, MPI_INT, 1, 0, MPI_COMM_WORLD); /* has left the barrier */
  for (int i = 0; i < size - 1 && rank == 1; i++) {
    MPI_Recv(&own, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 1) kill_self();
  double begin = MPI_Wtime();
  for (int i = 0; i < 1000 && handled == 0; i++) {
    MPI_Request request;
    is_returned = MPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_SUM, comm, &request) != MPI_SUCCESS ||
                  has_failed(&request);
  }
  if (handled != 1 || !is_returned) _exit(5);
  write_error(handled_error, begin);
}

static void forked(void) {
  int status = 0, own = 1, all = 0, done = 0;
  MPI_Comm copy;
  MPI_Request request;
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum before fork");
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  expect(sum_on(copy) == size, "the copy's sum before fork");
  if (rank != 0) poll(NULL, 0, 1000); /* so that it is under way */
  MPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_SUM, copy, &request);
  if (rank == 0) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int is_right = sum_on(MPI_COMM_SELF) == 1;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      MPI_Comm_free(&copy); /* in these MPIs no other rank takes part */
      exit(is_right && !done ? 0 : 1);
    }
    waitpid(child, &status, 0);
  }
  expect(status == 0, "the child's exit status");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(all == size, "the sum that was under way");
  expect(sum_on(copy) == size && sum_on(MPI_COMM_WORLD) == size, "the sums after fork");
  MPI_Comm_free(&copy);
}

static void errors(void) {
  int own = 1, all = 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  expect(MPI_Bcast(&own, -1, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS, "a negative count");
  expect(MPI_Bcast(&own, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD) != MPI_SUCCESS, "no type");
  expect(MPI_Bcast(&own, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS, "no such root");
  expect(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) != MPI_SUCCESS,
         "no op");
  expect(MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD) != MPI_SUCCESS,
         "the bits of floating-point numbers");
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum after errors");
}

static void *use_comm(void *context) {
  MPI_Comm comm = *(MPI_Comm *)context;
  for (int i = 0; i < 500; i++) {
    int own = i, all = 0;
    MPI_Request request;
    expect(sum_on(comm) == size, "a thread's sum");
    if (i % 10 > 0) continue;
    MPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(all == i * size, "a thread's non-blocking sum");
  }
  return NULL;
}

static void threads(void) {
  pthread_t thread[THREADS];
  MPI_Comm comms[THREADS];
  for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, use_comm, &comms[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
}

/* ---- requests ------------------------------------------------------------------------------*/

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define HAS_MPI_4_1 1
#else
#define HAS_MPI_4_1 0
#endif
enum { WAYS = 9 + 2 * HAS_MPI_4_1 };

static int all_done(MPI_Request *requests) {
  int is_done = 0;
  for (int i = 0; i < REQUESTS; i++) {
    MPI_Request_get_status(requests[i], &is_done, MPI_STATUS_IGNORE);
    if (!is_done) return 0;
  }
  return 1;
}

/* Whether the requests that a function has named are those that it has completed. */
static int are_null(const MPI_Request *requests, int count, const int *indices) {
  for (int i = 0; i < count && indices[i] != MPI_UNDEFINED; i++) {
    if (indices[i] >= REQUESTS || requests[indices[i]] != MPI_REQUEST_NULL) return 0;
  }
  return 1;
}

/* One look at the requests in a way; whether they are known to be all done. */
static int look(int way, MPI_Request *requests) {
  int is_done = 0, count = 0, indices[REQUESTS];
  switch (way) {
    case 0: return MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
    case 1:
      MPI_Waitany(REQUESTS, requests, indices, MPI_STATUS_IGNORE);
      expect(are_null(requests, 1, indices), "the index of MPI_Waitany");
      return indices[0] == MPI_UNDEFINED;
    case 2:
      MPI_Waitsome(REQUESTS, requests, &count, indices, MPI_STATUSES_IGNORE);
      expect(are_null(requests, count, indices), "the indices of MPI_Waitsome");
      return count == MPI_UNDEFINED;
    case 3: MPI_Testall(REQUESTS, requests, &is_done, MPI_STATUSES_IGNORE); return is_done;
    case 4:
      MPI_Testany(REQUESTS, requests, indices, &is_done, MPI_STATUS_IGNORE);
      expect(!is_done || are_null(requests, 1, indices), "the index of MPI_Testany");
      return is_done && indices[0] == MPI_UNDEFINED;
    case 5:
      MPI_Testsome(REQUESTS, requests, &count, indices, MPI_STATUSES_IGNORE);
      expect(are_null(requests, count, indices), "the indices of MPI_Testsome");
      return count == MPI_UNDEFINED;
    case 6: return all_done(requests);
    case 7:
    case 8:
      for (int i = 0, at; i < REQUESTS; i++) {
        at = way == 7 ? i : REQUESTS - 1 - i;
        while (way == 8 && !is_done) MPI_Test(&requests[at], &is_done, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        is_done = 0;
      }
      return 1;
#if HAS_MPI_4_1
    case 9:
      MPI_Request_get_status_all(REQUESTS, requests, &is_done, MPI_STATUSES_IGNORE);
      return is_done;
    case 10: /* it may name any of them that is done: first the collective alone */
      MPI_Request_get_status_any(1, &requests[1], indices, &is_done, MPI_STATUS_IGNORE);
      return is_done && all_done(requests);
#endif
    default: return 0;
  }
}

static void mixed_way(int way) {
  int sent = rank, received = -1, right = (rank + 1) % size, left = (rank + size - 1) % size;
  int own[4] = {rank, -1, rank + 1, -1}, all[4 * 16] = {0};
  MPI_Datatype every_other, later;
  MPI_Request requests[REQUESTS];
  MPI_Type_vector(2, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  MPI_Irecv(&received, 1, MPI_INT, left, way, MPI_COMM_WORLD, &requests[0]);
  if (rank == way % size) poll(NULL, 0, 50); /* so that the others look more than once */
  MPI_Iallgather(own, 1, every_other, all, 1, every_other, MPI_COMM_WORLD, &requests[1]);
  MPI_Type_free(&every_other);
  MPI_Type_vector(2, 1, 1, MPI_INT, &later); /* may get the place of the one before */
  MPI_Type_commit(&later);
  MPI_Isend(&sent, 1, MPI_INT, right, way, MPI_COMM_WORLD, &requests[2]);
  while (!look(way, requests)) continue;
  MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
  expect(received == left, "a message beside a collective");
  for (int i = 0; i < size; i++) {
    expect(all[3 * i] == i && all[3 * i + 2] == i + 1, "a collective beside a message");
  }
  MPI_Type_free(&later);
}

static void mixed(void) {
  expect(size <= 16 && sum_on(MPI_COMM_WORLD) == size, "the sum");
  for (int way = 0; way < WAYS; way++) mixed_way(way);
}

/* ---- MPI 4 ---------------------------------------------------------------------------------*/

#if HAS_MPI_4
static void persistent(void) {
  int own, all = 0;
  MPI_Request request;
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  MPI_Allreduce_init(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 5; i++) {
    own = rank + i;
    MPI_Start(&request);
    expect(sum_on(MPI_COMM_WORLD) == size, "the sum beside a persistent one");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(all == size * (size - 1) / 2 + i * size, "a persistent sum");
  }
  MPI_Request_free(&request);
}

/* Open MPI 5 has sessions, but no large counts yet. */
#if MPI_VERSION >= 4
#define HAS_LARGE_COUNTS 1
static void large(void) {
  MPI_Datatype pair, pairs;
  int data[8] = {0};
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  MPI_Type_contiguous_c(2, MPI_INT, &pair);
  MPI_Type_contiguous(2, pair, &pairs);
  MPI_Type_commit(&pair);
  MPI_Type_commit(&pairs);
  for (int i = 0; i < 8; i++) data[i] = rank == 1 ? i : 0;
  MPI_Bcast(data, 2, pair, 1, MPI_COMM_WORLD);
  MPI_Bcast(data + 4, 1, pairs, 1, MPI_COMM_WORLD);
  for (int i = 0; i < 8; i++) expect(data[i] == i, "what rank 1 has sent");
  MPI_Type_free(&pair);
  MPI_Type_free(&pairs);
}
#endif

static int session(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "libcoll", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  int is_right = sum_on(comm) == size;
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  if (rank == 0 && is_right) puts("session ends");
  return is_right ? 0 : 1;
}
#endif

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  int level;
#if HAS_MPI_4
  if (strcmp(name, "session") == 0) return session();
#endif
  if (strcmp(name, "before") == 0) sum_on(MPI_COMM_WORLD);
  MPI_Init_thread(&argc, &argv,
                  strcmp(name, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(name, "passes") == 0) passes();
  if (strcmp(name, "killed") == 0) killed(0);
  if (strcmp(name, "fatal") == 0) killed(1);
  if (strcmp(name, "returned") == 0) returned();
  if (strcmp(name, "forked") == 0) forked();
  if (strcmp(name, "errors") == 0) errors();
  if (strcmp(name, "threads") == 0) {
    if (level == MPI_THREAD_MULTIPLE) threads();
    if (level != MPI_THREAD_MULTIPLE) name = "no MPI_THREAD_MULTIPLE: it";
  }
  if (strcmp(name, "mixed") == 0) mixed();
#if HAS_MPI_4
  if (strcmp(name, "persistent") == 0) persistent();
#else
  if (strcmp(name, "persistent") == 0 || strcmp(name, "session") == 0) name = "no MPI 4: it";
#endif
#ifdef HAS_LARGE_COUNTS
  if (strcmp(name, "large") == 0) large();
#else
  if (strcmp(name, "large") == 0) name = "no MPI 4: it";
#endif
  if (rank == 0) printf("%s ends\n", name);
  MPI_Finalize();
  if (strcmp(name, "after") == 0) sum_on(MPI_COMM_WORLD);
  return 0;
}
