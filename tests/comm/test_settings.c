/*
 * Which of a config, a variable and a default counts: every row of the table in docs/knobs.md,
 * which this program reads.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/rendezvous/rendezvous.h"
#include "comm/settings.h"
#include "harness/party.h"
#include "topo/interfaces.h"

/* A field of the config with a value for it, and other values for its variable. Values are texts,
 * in the form of the variable. */
typedef struct field {
  const char *name, *variable;
  const char *configured, *by_variable, *preset, *otherwise;
  void (*set)(coll_comm_config_t *config);
  void (*get)(const comm_settings_t *settings, char *text, size_t bytes);
} field_t;

static void set_create_timeout(coll_comm_config_t *config) {
  config->create_timeout_ms = 1000;
}
static void set_hang(coll_comm_config_t *config) {
  config->hang_ms = 1000;
}
static void set_call_timeout(coll_comm_config_t *config) {
  config->call_timeout_ms = 1000;
}
static void set_reproducible(coll_comm_config_t *config) {
  config->reproducible = 1;
}
static void set_blocking(coll_comm_config_t *config) {
  config->blocking = 0;
}
static void set_transports(coll_comm_config_t *config) {
  config->transports = "shm,tcp";
}
static void set_interfaces(coll_comm_config_t *config) {
  config->interfaces = "eth";
}
static void set_host(coll_comm_config_t *config) {
  config->host_id = "one";
}
static void set_algorithms(coll_comm_config_t *config) {
  config->algorithms = "allreduce=ring";
}
static void set_tune(coll_comm_config_t *config) {
  config->tune = "builtin";
}

static void write_ms(uint64_t ns, char *text, size_t bytes) {
  snprintf(text, bytes, "%llu", (unsigned long long)(ns / 1000000u));
}
static void get_create_timeout(const comm_settings_t *settings, char *text, size_t bytes) {
  write_ms(settings->timeout_ns, text, bytes);
}
static void get_hang(const comm_settings_t *settings, char *text, size_t bytes) {
  write_ms(settings->limits.hang_ns, text, bytes);
}
static void get_call_timeout(const comm_settings_t *settings, char *text, size_t bytes) {
  write_ms(settings->limits.timeout_ns, text, bytes);
}
static void get_reproducible(const comm_settings_t *settings, char *text, size_t bytes) {
  snprintf(text, bytes, "%d", (int)settings->agreed.reproducible);
}
static void get_blocking(const comm_settings_t *settings, char *text, size_t bytes) {
  snprintf(text, bytes, "%d", settings->blocking);
}
static void get_transports(const comm_settings_t *settings, char *text, size_t bytes) {
  const transport_choice_t *choice = &settings->inherited.transport.choice;
  snprintf(text, bytes, "%s%s%s", choice->shm ? "shm," : "", choice->wire_count > 0 ? "verbs," : "",
           choice->tcp ? "tcp" : "");
}
static void get_interfaces(const comm_settings_t *settings, char *text, size_t bytes) {
  snprintf(text, bytes, "%s", settings->inherited.transport.interfaces);
}
static void get_host(const comm_settings_t *settings, char *text, size_t bytes) {
  snprintf(text, bytes, "%s", settings->inherited.transport.host);
}
static void get_algorithms(const comm_settings_t *settings, char *text, size_t bytes) {
  const char *name = settings->inherited.algorithms[COLL_ALLREDUCE];
  snprintf(text, bytes, "%s%s", name != NULL ? "allreduce=" : "", name != NULL ? name : "");
}
static void get_tune(const comm_settings_t *settings, char *text, size_t bytes) {
  snprintf(text, bytes, "%s", settings->measures ? "auto" : "builtin");
}

static const field_t fields[] = {
    {"create_timeout_ms", "COLL_TIMEOUT_MS", "1000", "2000", "3000", "60000", set_create_timeout,
     get_create_timeout},
    {"hang_ms", "COLL_HANG_MS", "1000", "2000", "3000", "30000", set_hang, get_hang},
    {"call_timeout_ms", "COLL_CALL_TIMEOUT_MS", "1000", "2000", "3000", "0", set_call_timeout,
     get_call_timeout},
    {"reproducible", "COLL_REPRODUCIBLE", "1", "0", "0", "0", set_reproducible, get_reproducible},
    {"blocking", "", "0", "", "", "1", set_blocking, get_blocking},
    {"transports", "COLL_TRANSPORTS", "shm,tcp", "tcp", "verbs,tcp", "shm,verbs,tcp",
     set_transports, get_transports},
    {"interfaces", "COLL_INTERFACES", "eth", "ib", "wlan", "", set_interfaces, get_interfaces},
    {"host_id", "COLL_HOST_ID", "one", "two", "three", "", set_host, get_host},
    {"algorithms", "COLL_ALGO", "allreduce=ring", "allreduce=tree", "allreduce=biring", "",
     set_algorithms, get_algorithms},
    {"tune", "COLL_TUNE", "builtin", "auto", "auto", "auto", set_tune, get_tune},
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static void check(const field_t *field, bool configured, const char *wanted, const char *what) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  comm_settings_t settings;
  char found[128];
  if (configured) field->set(&config);
  cr_assert_eq(comm_settings_read(&config, NULL, &settings), COLL_OK, "%s", base_last_error());
  field->get(&settings, found, sizeof found);
  cr_assert_str_eq(found, wanted, "%s, %s: %s in place of %s", field->name, what, found, wanted);
}

/* What a split of a communicator has, which was made with the field set. */
static void check_split(const field_t *field, const char *rule) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  comm_split_settings_t split;
  coll_comm_t parent;
  char found[128];
  if (strcmp(rule, "the costs of its parent") == 0) return; /* a split does not look for costs */
  field->set(&config);
  config.blocking = 1;
  cr_assert_eq(coll_comm_create_local(1, &config, &parent), COLL_OK, "%s", coll_last_error(NULL));
  parent->nonblocking = field->set == set_blocking;
  if (field->variable[0] != '\0') setenv(field->variable, field->by_variable, 1);
  cr_assert_eq(comm_settings_read_split(NULL, parent, CUDA_NO_DEVICE, &split), COLL_OK, "%s",
               base_last_error());
  comm_settings_t settings = {.timeout_ns = split.timeout_ns,
                              .limits = split.limits,
                              .blocking = split.blocking,
                              .inherited = split.inherited};
  settings.agreed.reproducible = parent->reproducible;
  field->get(&settings, found, sizeof found);
  const char *wanted =
      strcmp(rule, "as without a config") == 0 ? field->by_variable : field->configured;
  cr_assert_str_eq(found, wanted, "%s of a split: %s in place of %s", field->name, found, wanted);
  if (field->variable[0] != '\0') unsetenv(field->variable);
  cr_assert_eq(coll_comm_destroy(parent), COLL_OK);
}

static void check_row(const field_t *field, const char *first, const char *split) {
  bool is_programs = strcmp(first, "field") == 0;
  cr_assert(is_programs || strcmp(first, "variable") == 0, "%s: '%s'", field->name, first);
  check(field, false, field->otherwise, "nothing set");
  check(field, true, field->configured, "the field set");
  check_split(field, split);
  if (field->variable[0] == '\0') return;
  setenv(field->variable, field->by_variable, 1);
  check(field, false, field->by_variable, "the variable set");
  check(field, true, is_programs ? field->configured : field->by_variable, "both set");
  unsetenv(field->variable);
  cr_assert_eq(coll_knob_default(field->variable, field->preset, "a front end"), COLL_OK);
  check(field, false, field->preset, "a default set");
  check(field, true, field->configured, "the field and a default set");
}

/* Takes the next cell of a row of the table, without blanks and quotes; NULL: there is none. */
static char *next_cell(char **row) {
  char *cell = strsep(row, "|");
  if (cell == NULL) return NULL;
  cell += strspn(cell, " `");
  char *end = cell + strlen(cell);
  while (end > cell && strchr(" `\n", end[-1]) != NULL) *--end = '\0';
  return cell;
}

static const field_t *find(const char *name) {
  for (int i = 0; i < FIELD_COUNT; i++) {
    if (strcmp(fields[i].name, name) == 0) return &fields[i];
  }
  return NULL;
}

Test(settings, are_as_the_table_says) {
  FILE *page = fopen(KNOBS_PAGE, "r");
  char line[512];
  int rows = 0;
  cr_assert_not_null(page, "cannot read %s", KNOBS_PAGE);
  for (int i = 0; i < FIELD_COUNT; i++) unsetenv(fields[i].variable);
  while (fgets(line, sizeof line, page) != NULL) {
    char *row = line;
    if (strncmp(line, "## All variables", 16) == 0) break;
    if (strncmp(line, "| `", 3) != 0) continue;
    next_cell(&row); /* before the first bar */
    const char *name = next_cell(&row), *variable = next_cell(&row), *first = next_cell(&row);
    const char *split = next_cell(&row);
    cr_assert_not_null(split, "%s: a cell is missing", name);
    const field_t *field = find(name);
    cr_assert_not_null(field, "there is no field '%s'", name);
    cr_assert_str_eq(variable, field->variable);
    check_row(field, first, split);
    rows++;
  }
  fclose(page);
  cr_assert_eq(rows, FIELD_COUNT, "%d rows", rows);
}

/* A config of an earlier version, which has no texts. */
Test(settings, of_a_shorter_config_are_the_defaults) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  comm_settings_t settings;
  unsetenv("COLL_TRANSPORTS");
  config.hang_ms = 1000;
  config.transports = "nonsense";
  config.struct_bytes = offsetof(coll_comm_config_t, transports);
  cr_assert_eq(comm_settings_read(&config, NULL, &settings), COLL_OK, "%s", base_last_error());
  cr_assert_eq(settings.limits.hang_ns, 1000000000u);
  cr_assert(settings.inherited.transport.choice.shm);
  config.struct_bytes = sizeof config;
  cr_assert_eq(comm_settings_read(&config, NULL, &settings), COLL_ERROR_INVALID);
  cr_assert_not_null(
      strstr(base_last_error(), "COLL_TRANSPORTS is \"nonsense\" (the communicator's config)"),
      "%s", base_last_error());
}

Test(settings, of_algorithms_that_are_wrong_are_refused) {
  static const char *const wrong[][2] = {
      {"ring", "give a list such as allreduce=ring"},
      {"allreduce=ring,", ""},
      {"allredce=ring", "did you mean 'allreduce'?"},
      {"allreduce=rnig", "did you mean 'ring'?"},
      {"allreduce", "give a list"},
      {",", "give a list"},
      {"allreduce="
       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
       "give a list"},
  };
  comm_settings_t settings;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
    config.algorithms = wrong[i][0];
    coll_status_t status = comm_settings_read(&config, NULL, &settings);
    if (wrong[i][1][0] == '\0') {
      cr_expect_eq(status, COLL_OK, "%s: %s", wrong[i][0], base_last_error());
      continue;
    }
    cr_expect_eq(status, COLL_ERROR_INVALID, "%s", wrong[i][0]);
    cr_expect_not_null(strstr(base_last_error(), wrong[i][1]), "%s", base_last_error());
  }
}

/* ---- what they do -----------------------------------------------------------------------------*/

enum { RANKS = 2 };

static int check_comm(coll_comm_t comm, const char *route_wanted, const char *algorithm) {
  float one = 1, sum = 0;
  const char *route;
  int rank;
  PARTY_OK(coll_comm_rank(comm, &rank));
  PARTY_OK(coll_comm_route(comm, 1 - rank, &route));
  PARTY_REQUIRE(strcmp(route, route_wanted) == 0, "the route is %s", route);
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, comm, NULL));
  PARTY_REQUIRE(strcmp(coll_comm_algo_used(comm, COLL_ALLREDUCE), algorithm) == 0,
                "the algorithm is %s", coll_comm_algo_used(comm, COLL_ALLREDUCE));
  return 0;
}

/* Its splits are like it, and one with a config of its own is as that says. */
static int check_splits(coll_comm_t comm) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t child;
  PARTY_OK(coll_comm_split(comm, 0, 0, NULL, &child));
  PARTY_TRY(check_comm(child, "tcp", "ring"));
  PARTY_OK(coll_comm_destroy(child));
  config.transports = "shm";
  config.algorithms = "allreduce=biring";
  PARTY_OK(coll_comm_split(comm, 0, 0, &config, &child));
  PARTY_TRY(check_comm(child, "shm", "biring"));
  return coll_comm_destroy(child) != COLL_OK;
}

static int make_alike(int rank, int size, void *context) {
  coll_unique_id_t *ids = harness_board();
  for (int by_variables = 0; by_variables < 2; by_variables++) {
    coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
    coll_comm_t comm;
    (void)context;
    if (by_variables) {
      setenv("COLL_TRANSPORTS", "tcp", 1);
      setenv("COLL_ALGO", "allreduce=ring", 1);
    } else {
      config.transports = "tcp";
      config.algorithms = "allreduce=ring";
    }
    if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, &ids[by_variables]));
    harness_barrier();
    PARTY_OK(coll_comm_create(&ids[by_variables], rank, size, &config, &comm));
    PARTY_TRY(check_comm(comm, "tcp", "ring"));
    if (!by_variables) PARTY_TRY(check_splits(comm));
    PARTY_OK(coll_comm_destroy(comm));
  }
  return 0;
}

Test(settings, of_a_config_act_as_those_of_variables) {
  harness_result_t result;
  unsetenv("COLL_TRANSPORTS");
  cr_assert(harness_run(RANKS, 20000, make_alike, NULL, &result), "%s", result.text);
}

/* Two hosts of one machine: the ranks share no memory. */
static int make_on_two_hosts(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  const char *route;
  coll_comm_t comm;
  (void)context;
  config.host_id = rank == 0 ? "one" : "two";
  config.interfaces = "=lo";
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, &config, &comm));
  PARTY_OK(coll_comm_route(comm, 1 - rank, &route));
  PARTY_REQUIRE(strcmp(route, "shm") != 0, "the route is %s", route);
  return coll_comm_destroy(comm) != COLL_OK;
}

Test(settings, of_a_config_place_the_rank_on_a_host) {
  harness_result_t result;
  unsetenv("COLL_INTERFACES");
  setenv("COLL_INSECURE", "1", 1);
  cr_assert(harness_run(RANKS, 20000, make_on_two_hosts, NULL, &result), "%s", result.text);
}

/* Ranks that force different algorithms would not understand each other's messages. */
static int force_differently(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t comm;
  (void)context;
  config.algorithms = rank == 0 ? "allreduce=ring" : "allreduce=biring";
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  coll_status_t status = coll_comm_create(id, rank, size, &config, &comm);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "force different algorithms") != NULL, "it says '%s'",
                coll_last_error(NULL));
  return 0;
}

Test(settings, of_ranks_that_force_different_algorithms_are_refused) {
  harness_result_t result;
  cr_assert(harness_run(RANKS, 20000, force_differently, NULL, &result), "%s", result.text);
}

Test(settings, of_a_reproducible_communicator_have_its_order) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t comms[3];
  config.reproducible = 1;
  config.algorithms = "allreduce=ring";
  cr_assert_eq(coll_comm_create_local(3, &config, comms), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(coll_last_error(NULL), "allreduce by 'ring' reduces in an order"), "%s",
                     coll_last_error(NULL));
}

/* Within a color. Other colors may force others, and what was split can be used as before. */
static int split_differently(party_rank_t *self) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t child = NULL;
  bool is_last = self->rank == self->size - 1;
  config.algorithms = is_last ? "allreduce=ring" : "allreduce=biring";
  coll_status_t status = coll_comm_split(self->comm, self->rank > 0, 0, &config, &child);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 1 and rank 3 force different algorithms"),
                "it says '%s'", coll_last_error(NULL));
  PARTY_OK(coll_comm_split(self->comm, is_last, 0, &config, &child));
  PARTY_OK(coll_barrier(child, NULL));
  return coll_comm_destroy(child) != COLL_OK;
}

Test(settings, of_ranks_that_split_with_different_algorithms_are_refused) {
  PARTY_RUN(4, 20000, split_differently, NULL);
}

/* Ranks 0 to 2 are not allowed what they force; rank 3, which is alone, is allowed anything. */
static int check_refusal(coll_comm_t parent, int rank, const char *algorithms, const char *why) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t child = NULL;
  bool is_last = rank == 3;
  config.algorithms = algorithms;
  coll_status_t status = coll_comm_split(parent, is_last, 0, &config, &child);
  PARTY_REQUIRE(status == (is_last ? COLL_ERROR_SYSTEM : COLL_ERROR_INVALID), "%s",
                coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), is_last ? "rank 0 could not take part" : why),
                "it says '%s'", coll_last_error(NULL));
  PARTY_OK(coll_barrier(parent, NULL));
  return 0;
}

static int split_reproducible(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t parent, pair;
  (void)context;
  config.reproducible = 1;
  config.algorithms = "allreduce=butterfly"; /* in the order of ranks if they are a power of two */
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, &config, &parent));
  PARTY_TRY(check_refusal(parent, rank, "allreduce=ring", "allreduce by 'ring' reduces in an"));
  PARTY_TRY(check_refusal(parent, rank, NULL, "allreduce by 'butterfly' reduces in an order"));
  PARTY_OK(coll_comm_split(parent, rank % 2, 0, NULL, &pair));
  PARTY_TRY(check_comm(pair, "shm", "butterfly"));
  PARTY_OK(coll_comm_destroy(pair));
  return coll_comm_destroy(parent) != COLL_OK;
}

Test(settings, of_a_split_of_a_reproducible_communicator_have_its_order) {
  harness_result_t result;
  unsetenv("COLL_TRANSPORTS");
  cr_assert(harness_run(4, 20000, split_reproducible, NULL, &result), "%s", result.text);
}

/* ---- of a unique id ---------------------------------------------------------------------------*/

/* The text of the id's addresses is a part of it. */
static bool has_address(const coll_unique_id_t *id, const char *address) {
  return memmem(id->internal, sizeof id->internal, address, strlen(address)) != NULL;
}

/* Its server: the id is a number, then the address. */
static rendezvous_address_t server_of(const coll_unique_id_t *id) {
  rendezvous_address_t address;
  memcpy(&address, id->internal + sizeof(uint64_t), sizeof address);
  return address;
}

/* Whether somebody listens at an address of this host that others reach. */
static bool is_reached_by_others(uint16_t port) {
  topo_interface_t found[8];
  int count = 0, reached = 0;
  cr_assert_eq(topo_interfaces_find("", 8, found, &count), COLL_OK, "%s", base_last_error());
  for (int i = 0; i < count; i++) {
    if (found[i].address.ss_family != AF_INET) continue; /* each host of the tests has an IPv4 */
    struct sockaddr_in *at = (struct sockaddr_in *)(void *)&found[i].address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at->sin_port = htons(port);
    reached += connect(fd, (struct sockaddr *)at, sizeof *at) == 0;
    close(fd);
  }
  return reached > 0;
}

static coll_status_t make_id(const char *interfaces, coll_unique_id_t *id) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.interfaces = interfaces;
  return coll_unique_id_create(&config, id);
}

static void refused(const char *interfaces, const char *why) {
  coll_unique_id_t id;
  cr_expect_eq(make_id(interfaces, &id), COLL_ERROR_INVALID);
  cr_expect_not_null(strstr(coll_last_error(NULL), why), "%s", coll_last_error(NULL));
}

Test(settings, of_a_unique_id_are_of_its_config) {
  coll_unique_id_t id;
  unsetenv("COLL_INTERFACES");
  unsetenv("COLL_INTERFACE_ADDRESS");
  cr_assert_eq(make_id("=lo", &id), COLL_OK, "%s", coll_last_error(NULL));
  cr_expect(has_address(&id, "127.0.0.1"));
  cr_expect(!is_reached_by_others(server_of(&id).port), "it listens at all addresses");
  refused("=nosuch0", "nosuch0");
  setenv("COLL_INTERFACES", "=nosuch1", 1);
  refused("=lo", "nosuch1");
  setenv("COLL_INTERFACES", "=lo", 1);
  cr_expect_eq(make_id("=nosuch0", &id), COLL_OK, "%s", coll_last_error(NULL));
  setenv("COLL_INTERFACE_ADDRESS", "127.0.0.7", 1);
  cr_assert_eq(make_id("=nosuch0", &id), COLL_OK, "%s", coll_last_error(NULL));
  cr_expect(has_address(&id, "127.0.0.7") && !has_address(&id, "127.0.0.1"));
}
