/*
 * The client of PMI-1 against a server in another process, which answers with what a test gives it:
 * what Hydra and Slurm send, errors, and nonsense. What it does not answer makes the client's time
 * limit pass; else no time passes. The real ones are in hydra.sh and slurm.sh. The program has a
 * function MPI_Initialized, as one that is linked with MPI.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/launch/launch.h"
#include "harness/virtual_time.h"

#define LIMIT_NS UINT64_C(60000000000)

static int mpi_flag;

__attribute__((visibility("default"))) int MPI_Initialized(int *flag);
int MPI_Initialized(int *flag) {
  *flag = mpi_flag;
  return 0;
}

typedef struct exchange {
  const char *request, *answer; /* NULL: none, the connection stays open; "": it is closed */
} exchange_t;

static int ends[2]; /* the server's and the client's */

/* Returns 0 if the requests were as expected. */
static int serve(const exchange_t exchanges[]) {
  for (const exchange_t *each = exchanges; each->request != NULL; each++) {
    char line[2048] = "";
    size_t got = 0;
    while (got < sizeof line - 1 && read(ends[0], line + got, 1) == 1 && line[got] != '\n') got++;
    line[got] = '\0';
    if (strcmp(line, each->request) != 0) {
      fprintf(stderr, "expected '%s', got '%s'\n", each->request, line);
      return 1;
    }
    while (each->answer == NULL) { /* the client says goodbye too, when it exits */
      virtual_time_advance(LIMIT_NS);
      base_clock_sleep_ns(1000000);
    }
    ssize_t bytes = (ssize_t)strlen(each->answer);
    if (bytes == 0) return 0;
    if (write(ends[0], each->answer, (size_t)bytes) != bytes) return 1;
  }
  return 0;
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* The server ends with this process, at the latest. */
static pid_t begin(const exchange_t exchanges[], int rank) {
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  virtual_time_begin();
  virtual_time_freeze();
  pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[1]);
    _exit(serve(exchanges));
  }
  cr_assert(server > 0);
  close(ends[0]);
  set_number("PMI_FD", ends[1]);
  set_number("PMI_RANK", rank);
  set_number("PMI_SIZE", 2);
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_PROCID", "7", 1); /* of an outer launcher */
  setenv("SLURM_NTASKS", "8", 1);
  return server;
}

static void end(pid_t server) {
  int status;
  cr_assert_eq(waitpid(server, &status, 0), server);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a request was not as expected");
}

static uint64_t limit(void) {
  return base_clock_now_ns() + LIMIT_NS;
}

#define HELLO                                                     \
  {"cmd=init pmi_version=1 pmi_subversion=1",                     \
   "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"}, \
  {                                                               \
    "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"        \
  }
#define BARRIER \
  { "cmd=barrier_in", "cmd=barrier_out\n" }
#define GOODBYE \
  { "cmd=finalize", "cmd=finalize_ack\n" }
#define END \
  { NULL, NULL }

Test(pmi, rank_0_publishes_under_a_new_key_each_time) {
  static const exchange_t exchanges[] = {
      HELLO,
      {"cmd=put kvsname=kvs_1 key=coll-0 value=first", "cmd=put_result rc=0 msg=success\n"},
      BARRIER,
      {"cmd=put kvsname=kvs_1 key=coll-1 value=second", "cmd=put_result rc=0\n"},
      BARRIER,
      END};
  launch_t launch;
  pid_t server = begin(exchanges, 0);
  for (int i = 0; i < 2; i++) {
    char text[LAUNCH_TEXT_BYTES] = "first";
    if (i == 1) snprintf(text, sizeof text, "second");
    cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
    cr_assert(launch.rank == 0 && launch.size == 2 && launch.no_store[0] == '\0');
    cr_assert_eq(launch_share(&launch, limit(), text), COLL_OK, "%s", base_last_error());
  }
  end(server);
}

Test(pmi, others_read) {
  static const exchange_t exchanges[] = {
      HELLO,
      BARRIER,
      {"cmd=get kvsname=kvs_1 key=coll-0", "cmd=get_result rc=0 msg=success value=text/1\n"},
      GOODBYE,
      END};
  launch_t launch;
  char text[LAUNCH_TEXT_BYTES] = "";
  begin(exchanges, 1);
  cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
  cr_assert_eq(launch_share(&launch, limit(), text), COLL_OK, "%s", base_last_error());
  cr_assert_str_eq(text, "text/1");
}

/* What a failure of rank 1 says. */
static void expect(const exchange_t exchanges[], coll_status_t expected, const char *part) {
  launch_t launch;
  char text[LAUNCH_TEXT_BYTES] = "";
  begin(exchanges, 1);
  coll_status_t status = launch_find(limit(), &launch);
  if (status == COLL_OK) status = launch_share(&launch, limit(), text);
  cr_assert_eq(status, expected, "%d: %s", (int)status, base_last_error());
  cr_assert_not_null(strstr(base_last_error(), part), "%s", base_last_error());
}

Test(pmi, rank_that_does_not_come) {
  static const exchange_t exchanges[] = {HELLO, {"cmd=barrier_in", NULL}, END};
  expect(exchanges, COLL_ERROR_TIMEOUT, "not all of the 2 ranks");
}

Test(pmi, launcher_that_hangs_up) {
  static const exchange_t exchanges[] = {HELLO, {"cmd=barrier_in", ""}, END};
  expect(exchanges, COLL_ERROR_SYSTEM, "is broken");
}

Test(pmi, launcher_that_says_nothing) {
  static const exchange_t exchanges[] = {{"cmd=init pmi_version=1 pmi_subversion=1", NULL}, END};
  expect(exchanges, COLL_ERROR_TIMEOUT, "did not answer in time to its first request");
}

Test(pmi, key_that_is_missing) {
  static const exchange_t exchanges[] = {
      HELLO,
      BARRIER,
      {"cmd=get kvsname=kvs_1 key=coll-0",
       "cmd=get_result rc=-1 msg=key_coll-0_not_found value=unknown\n"},
      END};
  expect(exchanges, COLL_ERROR_SYSTEM, "key_coll-0_not_found");
}

Test(pmi, answers_to_something_else) {
  static const exchange_t exchanges[] = {
      {"cmd=init pmi_version=1 pmi_subversion=1", "cmd=maxes rc=0\n"}, END};
  expect(exchanges, COLL_ERROR_SYSTEM, "in place of cmd=response_to_init");
}

Test(pmi, value_that_is_too_long) {
  static char answer[1200] = "cmd=get_result rc=0 value=";
  static const exchange_t exchanges[] = {
      HELLO, BARRIER, {"cmd=get kvsname=kvs_1 key=coll-0", answer}, END};
  memset(answer + strlen(answer), 'v', LAUNCH_TEXT_BYTES);
  answer[strlen(answer)] = '\n';
  expect(exchanges, COLL_ERROR_SYSTEM, "get_result");
}

/* The library then knows rank and size from variables. */
Test(pmi, is_left_alone_while_mpi_uses_it) {
  static const exchange_t none[] = {END};
  launch_t launch;
  end(begin(none, 1));
  mpi_flag = 1;
  setenv("MPI_LOCALNRANKS", "1", 1);
  cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
  cr_assert(launch.rank == 1 && launch.size == 2 && launch.kind->store == NULL);
  rendezvous_address_t address;
  cr_assert_eq(launch_meet(&launch, "", limit(), &address), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "by MPI_Bcast"), "%s", base_last_error());
}

Test(pmi, descriptor_that_is_closed) {
  static const exchange_t none[] = {END};
  launch_t launch;
  end(begin(none, 1));
  close(ends[1]);
  cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
  cr_assert(launch.rank == 1 && launch.kind->store == NULL);
  cr_assert_not_null(strstr(launch.no_store, "is closed"), "%s", launch.no_store);
}

Test(pmi, port_that_nobody_listens_at) {
  launch_t launch;
  setenv("PMI_PORT", "127.0.0.1:1", 1);
  setenv("PMI_ID", "0", 1);
  cr_assert_eq(launch_find(base_clock_now_ns() + UINT64_C(300000000), &launch), COLL_ERROR_SYSTEM);
  cr_assert_not_null(strstr(base_last_error(), "PMI_PORT=127.0.0.1:1"), "%s", base_last_error());
}
