/* Rank, size and rendezvous address from launchers' environment variables, and their precedence. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/launch/ancestor.h"
#include "bootstrap/launch/launch.h"
#include "harness/party.h"
#include "lifetime/create.h"

static const char *const names[] = {"COLL_LAUNCHER",
                                    "COLL_RANK",
                                    "COLL_SIZE",
                                    "COLL_ADDRESS",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "LOCAL_WORLD_SIZE",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "PMI_FD",
                                    "PMI_PORT",
                                    "PMIX_RANK",
                                    "PMIX_NAMESPACE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NUM_NODES",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_NODELIST",
                                    "COLL_TIMEOUT_MS",
                                    "COLL_TOPO_PACED"};

static void clear(void) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

TestSuite(environment, .init = clear);

typedef struct found {
  coll_status_t status;
  int rank, size;
  rendezvous_address_t address;
} found_t;

static found_t look(void) {
  found_t found = {.rank = -1, .size = -1};
  launch_t launch;
  found.status = launch_find(base_clock_now_ns() + 1000000000u, &launch);
  if (found.status != COLL_OK) return found;
  if (launch.size > 1) found.status = launch_variables_address(&launch, &found.address);
  found.rank = launch.rank;
  found.size = launch.size;
  return found;
}

static void set(const char *name, const char *value) {
  setenv(name, value, 1);
}

Test(environment, without_a_launcher_is_one_rank) {
  found_t found = look();
  cr_assert(found.status == COLL_OK && found.rank == 0 && found.size == 1);
  coll_comm_t comm;
  float one = 3, sum = 0;
  cr_assert_eq(coll_comm_create_env(NULL, &comm), COLL_OK, "%s", coll_last_error(NULL));
  cr_assert_eq(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, comm, NULL), COLL_OK);
  cr_assert_eq(sum, 3);
  cr_assert_eq(coll_comm_destroy(comm), COLL_OK);
}

Test(environment, of_torchrun) {
  set("COLL_LAUNCHER", "variables"); /* there is no store here */
  set("RANK", "3");
  set("WORLD_SIZE", "7");
  set("MASTER_ADDR", "10.1.2.3");
  set("MASTER_PORT", "4321");
  found_t found = look();
  cr_assert(found.status == COLL_OK && found.rank == 3 && found.size == 7, "%s", base_last_error());
  cr_assert_str_eq(found.address.host, "10.1.2.3");
  cr_assert_eq(found.address.port, 4321);
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  cr_assert_eq(look().address.port, 4322, "the agent's own store holds the port");
  set("MASTER_PORT", "65535");
  cr_assert_eq(look().address.port, 65534);
  unsetenv("MASTER_PORT");
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "MASTER_PORT"), "%s", base_last_error());
}

Test(environment, of_other_launchers) {
  static const char *const sets[][3] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"}};
  for (int i = 0; i < 2; i++) {
    clear();
    set(sets[i][0], "1");
    set(sets[i][1], "4");
    set(sets[i][2], "job 17");
    set("SLURM_STEP_ID", "0");
    found_t found = look(), again = look();
    cr_assert(found.status == COLL_OK && found.rank == 1 && found.size == 4, "%s", sets[i][0]);
    cr_assert_eq(found.address.port, again.address.port, "all ranks of a job must find one port");
    cr_assert_str_eq(found.address.host, "127.0.0.1");
    set(sets[i][2], "job 18");
    cr_assert_neq(look().address.port, found.address.port, "two jobs on one port");
    set("MASTER_PORT", "999");
    set("MASTER_ADDR", "there");
    found = look();
    cr_assert_eq(found.address.port, 999);
    cr_assert_str_eq(found.address.host, "there");
  }
}

Test(environment, of_steps_of_an_allocation) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "4");
  set("SLURM_JOB_ID", "17");
  set("SLURM_STEP_ID", "0");
  found_t first = look();
  set("SLURM_STEP_ID", "1");
  cr_assert_neq(look().address.job, first.address.job, "two steps are one job");
}

Test(environment, of_a_user) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "1234");
  set("COLL_RANK", "3");
  set("COLL_SIZE", "4");
  set("COLL_ADDRESS", "job-0.net:77");
  found_t found = look();
  cr_assert(found.status == COLL_OK && found.rank == 3 && found.size == 4, "%s", base_last_error());
  cr_assert_str_eq(found.address.host, "job-0.net");
  cr_assert_eq(found.address.port, 77);
  set("COLL_ADDRESS", "[fd00::1]:78");
  found = look();
  cr_assert_str_eq(found.address.host, "fd00::1");
  cr_assert_eq(found.address.port, 78);
  static const char *const wrong[] = {"", "host", ":1", "host:", "host:0", "host:65536", "host:x"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    set("COLL_ADDRESS", wrong[i]);
    cr_assert_eq(look().status, COLL_ERROR_INVALID, "'%s' was taken", wrong[i]);
    cr_assert_not_null(strstr(base_last_error(), "COLL_ADDRESS"), "%s", base_last_error());
  }
}

/* Each alone, and in place of the other. */
Test(environment, names_what_is_missing) {
  static const char *const halves[][2] = {{"COLL_RANK", "COLL_SIZE"},
                                          {"RANK", "WORLD_SIZE"},
                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"PMI_RANK", "PMI_SIZE"},
                                          {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (size_t i = 0; i < 2 * sizeof halves / sizeof halves[0]; i++) {
    const char *there = halves[i / 2][i % 2], *missing = halves[i / 2][1 - i % 2];
    clear();
    set("SLURM_STEP_ID", "0");
    set(there, "4");
    cr_assert_eq(look().status, COLL_ERROR_INVALID, "%s alone was taken", there);
    cr_assert_not_null(strstr(base_last_error(), missing), "%s", base_last_error());
    set("COLL_LAUNCHER", "none");
    cr_assert_eq(look().size, 1);
  }
}

Test(environment, names_what_is_missing_beside_other_variables) {
  static const char *const sets[][3] = {
      {"LOCAL_WORLD_SIZE", "2", "but RANK is not"},
      {"MPI_LOCALNRANKS", "2", "but PMI_RANK is not"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2", "but OMPI_COMM_WORLD_RANK is not"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True", "but RANK is not"},
      {"COLL_ADDRESS", "node:1", "but COLL_RANK is not"},
      {"WORLD_SIZE", "many", "but RANK is not"},
      {"PMI_PORT", "node:1", "COLL_LAUNCHER=variables"}, /* mpiexec -pmi-port sets no rank */
      {"PMIX_RANK", "0", "COLL_LAUNCHER=variables"}};
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    clear();
    set("COLL_LAUNCHER", "variables");
    set(sets[i][0], sets[i][1]);
    cr_assert_eq(look().status, COLL_ERROR_INVALID, "%s alone was taken", sets[i][0]);
    cr_assert_not_null(strstr(base_last_error(), sets[i][2]), "%s", base_last_error());
  }
}

/* A job of one has no other ranks that could be missed. */
Test(environment, takes_what_means_nothing_for_one_rank) {
  static const char *const sets[][2] = {
      {"SLURM_NTASKS", "4"}, /* as a shell of an allocation has it */
      {"WORLD_SIZE", "1"},
      {"OMPI_COMM_WORLD_SIZE", "1"},
      {"PMI_SIZE", "1"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"MASTER_ADDR", "node"},
      {"MASTER_PORT", "1"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    clear();
    set(sets[i][0], sets[i][1]);
    cr_assert_eq(look().size, 1, "%s=%s: %s", sets[i][0], sets[i][1], base_last_error());
  }
}

/* A complete launcher counts, whatever another one has left of its own. */
Test(environment, takes_a_complete_launcher_beside_half_of_another) {
  set("WORLD_SIZE", "8");
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "4");
  set("SLURM_STEP_ID", "0");
  found_t found = look();
  cr_assert(found.rank == 1 && found.size == 4, "%s", base_last_error());
  set("COLL_SIZE", "8");
  cr_assert_eq(look().status, COLL_ERROR_INVALID, "COLL_SIZE is for this library alone");
  cr_assert_not_null(strstr(base_last_error(), "COLL_RANK"), "%s", base_last_error());
}

Test(environment, refuses_empty_variables_of_the_library) {
  static const char *const own[] = {"COLL_RANK",       "COLL_SIZE",
                                    "COLL_ADDRESS",    "COLL_LAUNCHER",
                                    "COLL_TIMEOUT_MS", "COLL_AUTH_FILE",
                                    "COLL_TOPO_FILE",  "COLL_HOST_ID",
                                    "COLL_INTERFACES", "COLL_INTERFACE_ADDRESS"};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    coll_comm_t comm = NULL;
    coll_unique_id_t id;
    clear();
    set("COLL_RANK", "0");
    set("COLL_SIZE", "2");
    set("COLL_ADDRESS", "127.0.0.1:1");
    set(own[i], "");
    coll_status_t status = strncmp(own[i], "COLL_INTERFACE", 14) == 0 || i == 7
                               ? coll_unique_id_create(NULL, &id)
                               : coll_comm_create_env(NULL, &comm);
    if (i == 7 && status == COLL_OK) status = coll_comm_create(&id, 0, 1, NULL, &comm);
    cr_assert_eq(status, COLL_ERROR_INVALID, "an empty %s was taken", own[i]);
    cr_assert_not_null(strstr(coll_last_error(NULL), own[i]), "%s", coll_last_error(NULL));
    unsetenv(own[i]);
  }
}

Test(environment, paces_only_with_a_file) {
  coll_comm_t comm;
  set("COLL_TOPO_PACED", "1");
  cr_assert_eq(coll_comm_create_env(NULL, &comm), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(coll_last_error(NULL), "COLL_TOPO_FILE"), "%s", coll_last_error(NULL));
}

/* The ranks of several hosts would meet at a port that each host computes for itself. */
Test(environment, needs_a_port_with_an_address_of_another_host) {
  set("PMI_RANK", "1");
  set("PMI_SIZE", "4");
  set("MASTER_ADDR", "10.77.0.1");
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "MASTER_PORT"), "%s", base_last_error());
  set("MPI_LOCALNRANKS", "4");
  cr_assert_eq(look().status, COLL_OK, "%s", base_last_error());
}

/* Each host would take its own loopback address for it. */
Test(environment, needs_an_address_with_a_port) {
  set("RANK", "1");
  set("WORLD_SIZE", "4");
  set("MASTER_PORT", "1234");
  set("LOCAL_WORLD_SIZE", "2");
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "MASTER_ADDR"), "%s", base_last_error());
  unsetenv("LOCAL_WORLD_SIZE");
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  set("LOCAL_WORLD_SIZE", "4");
  cr_assert_str_eq(look().address.host, "127.0.0.1");
}

Test(environment, batch_script_of_slurm_is_one_rank) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_PROCID", "0");
  cr_assert_eq(look().size, 1, "%s", base_last_error());
  set("SLURM_NTASKS", "4");
  cr_assert_eq(look().size, 1, "%s", base_last_error());
  set("SLURM_STEP_ID", "0");
  cr_assert_eq(look().size, 4, "%s", base_last_error());
}

Test(environment, of_slurm_over_nodes) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "4");
  set("SLURM_JOB_ID", "17");
  set("SLURM_STEP_ID", "0");
  set("SLURM_STEP_NUM_NODES", "2");
  set("SLURM_NODELIST", "other");
  set("SLURM_STEP_NODELIST", "gpu[07-12]");
  cr_assert_str_eq(look().address.host, "gpu07");
  set("SLURM_STEP_NUM_NODES", "1");
  cr_assert_str_eq(look().address.host, "127.0.0.1");
  set("MASTER_ADDR", "there");
  cr_assert_str_eq(look().address.host, "there");
}

Test(environment, first_of_a_node_list) {
  static const char *const lists[][2] = {{"a", "a"},
                                         {"a,b", "a"},
                                         {"a[01-03,7]x,b", "a01x"},
                                         {"r[2]n[5,7-9]", "r2n5"},
                                         {"", NULL},
                                         {"a[1-2", NULL},
                                         {"a]", NULL},
                                         {"a[]", NULL},
                                         {"longer-than-15-b", NULL}};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    char host[16];
    bool found = launch_slurm_first(lists[i][0], host, sizeof host);
    cr_assert_eq(found, lists[i][1] != NULL, "'%s'", lists[i][0]);
    if (found) cr_assert_str_eq(host, lists[i][1]);
  }
}

Test(environment, several_hosts_without_an_address) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "set MASTER_ADDR"), "%s", base_last_error());
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  cr_assert_str_eq(look().address.host, "127.0.0.1");
}

Test(environment, text_of_an_address) {
  char text[LAUNCH_TEXT_BYTES];
  rendezvous_address_t from = {.host = "10.0.0.1,fd00::1", .port = 65535, .pid = 4711}, to;
  for (int round = 0; round < 2; round++) {
    launch_text_write(&from, text);
    cr_assert(strpbrk(text, " =;\n") == NULL, "PMI cannot carry '%s'", text);
    cr_assert(launch_text_read(text, &to), "%s", text);
    cr_assert_eq(memcmp(&from, &to, sizeof to), 0, "%s", text);
    cr_assert_eq(base_secret_create(&from.secret), COLL_OK);
  }
  static const char *const wrong[] = {"",
                                      "coll1!",
                                      "coll2/a/1/2/-",
                                      "coll1/a/1/2",
                                      "coll1//1/2/-",
                                      "coll1/a/0/2/-",
                                      "coll1/a/1/-2/-",
                                      "coll1/a/1/2/abc",
                                      "coll1/a/1/2/-/"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    cr_assert(!launch_text_read(wrong[i], &to), "'%s' was taken", wrong[i]);
  }
  memset(text, 'f', sizeof text);
  text[sizeof text - 1] = '\0';
  memcpy(text, "coll1/a/1/2/", 12);
  cr_assert(!launch_text_read(text, &to));
}

/* What a child process reads from its environment. */
static found_t look_in_a_child(void) {
  int ends[2];
  found_t found = {0};
  cr_assert_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    found = look();
    _exit(write(ends[1], &found, sizeof found) != (ssize_t)sizeof found);
  }
  cr_assert_eq(read(ends[0], &found, sizeof found), (ssize_t)sizeof found);
  waitpid(child, NULL, 0);
  close(ends[0]);
  close(ends[1]);
  return found;
}

/* PMI sets no job id. */
Test(environment, distinguishes_jobs_by_their_launcher) {
  set("PMI_RANK", "1");
  set("PMI_SIZE", "4");
  found_t here = look(), first = look_in_a_child(), second = look_in_a_child();
  cr_assert(first.status == COLL_OK && first.rank == 1 && first.size == 4);
  cr_assert_eq(first.address.job, second.address.job, "ranks of one job have different jobs");
  cr_assert_eq(first.address.port, second.address.port);
  cr_assert_neq(here.address.job, first.address.job, "a rank that another process has started");
  set("MASTER_PORT", "999");
  cr_assert_eq(look().address.job, look_in_a_child().address.job,
               "with MASTER_PORT set, the launcher does not count");
}

/* Scripts between the launcher and the rank also have the launcher's variables. */
Test(environment, skips_scripts_between_launcher_and_rank) {
  char own[LAUNCH_ANCESTOR_BYTES], past[LAUNCH_ANCESTOR_BYTES], none[LAUNCH_ANCESTOR_BYTES];
  set("PATH", getenv("PATH") != NULL ? getenv("PATH") : "/bin"); /* because all ancestors have it */
  launch_ancestor_identity("COLL_NO_SUCH_VARIABLE", own);
  launch_ancestor_identity("COLL_NO_SUCH_VARIABLE", none);
  launch_ancestor_identity("PATH", past);
  cr_assert_str_eq(own, none);
  cr_assert_str_neq(own, past, "the parent has the variable, and is taken for the launcher");
}

Test(environment, refuses_a_long_host_name) {
  char host[RENDEZVOUS_HOST_BYTES + 1];
  memset(host, 'h', sizeof host);
  host[sizeof host - 1] = '\0';
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  set("MASTER_PORT", "1234");
  set("MASTER_ADDR", host);
  cr_assert_eq(look().status, COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "MASTER_ADDR"), "%s", base_last_error());
  host[sizeof host - 2] = '\0';
  set("MASTER_ADDR", host);
  cr_assert_eq(look().status, COLL_OK);
}

Test(environment, prefers_torchrun) {
  set("SLURM_STEP_ID", "0");
  set("SLURM_PROCID", "9");
  set("SLURM_NTASKS", "10");
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "1234");
  found_t found = look();
  cr_assert(found.rank == 0 && found.size == 2);
}

Test(environment, names_a_variable_with_a_wrong_value) {
  static const char *const bad[][3] = {
      {"2", "2", "RANK=2"},         {"-1", "2", "RANK=-1"},
      {"x", "2", "RANK=x"},         {"0", "0", "WORLD_SIZE=0"},
      {"0", "2k", "WORLD_SIZE=2k"}, {"0", "99999999999999999999", "WORLD_SIZE=9"},
      {"1.5", "3", "RANK=1.5"},     {"0", "-4", "WORLD_SIZE=-4"}};
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "1234");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set("RANK", bad[i][0]);
    set("WORLD_SIZE", bad[i][1]);
    found_t found = look();
    cr_assert_eq(found.status, COLL_ERROR_INVALID, "%s was taken", bad[i][2]);
    cr_assert(found.rank == -1 && found.size == -1, "an output was set");
    cr_assert_not_null(strstr(base_last_error(), bad[i][2]), "%s", base_last_error());
  }
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  static const char *const ports[] = {"0", "65536", "-1", "http"};
  for (int i = 0; i < 4; i++) {
    set("MASTER_PORT", ports[i]);
    cr_assert_eq(look().status, COLL_ERROR_INVALID, "port %s was taken", ports[i]);
    cr_assert_not_null(strstr(base_last_error(), "MASTER_PORT"), "%s", base_last_error());
  }
}

/* Processes with a launcher's variables make communicators. */
static int launched(int rank, int size, void *context) {
  char text[16];
  snprintf(text, sizeof text, "%d", rank);
  set("RANK", text);
  snprintf(text, sizeof text, "%d", size);
  set("WORLD_SIZE", text);
  set("MASTER_ADDR", "127.0.0.1");
  snprintf(text, sizeof text, "%d", *(int *)context);
  set("MASTER_PORT", text);
  coll_comm_t comm;
  int32_t one = 1, sum = 0;
  for (int round = 0; round < 3; round++) { /* the same port again */
    PARTY_OK(coll_comm_create_env(NULL, &comm));
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL));
    PARTY_REQUIRE(sum == size, "sum is %d", sum);
    PARTY_OK(coll_comm_destroy(comm));
  }
  return 0;
}

Test(environment, makes_communicators) {
  int port = harness_free_port();
  harness_result_t result;
  cr_assert(harness_run(4, 20000, launched, &port, &result), "%s", result.text);
}
