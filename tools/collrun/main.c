/* collrun: starts the ranks of a program on this machine or on several hosts. This file makes the
 * checks that are possible before any rank runs: the command line, the port, the output folder. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/handshake.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "base/tool.h"
#include "tools/collrun/job.h"
#include "tools/collrun/layout.h"
#include "tools/collrun/settings.h"

/* Below the ports that Linux gives to programs that ask for any. */
enum { PORT_FIRST = 20000, PORT_COUNT = 12000, PORT_TRIES = 200 };

/* Whether this process can listen on the port; errno otherwise. */
static bool is_free(int port) {
  bool serves_hosts = base_handshake_check_hosts() == COLL_OK;
  const struct in_addr at = {.s_addr = htonl(serves_hosts ? INADDR_ANY : INADDR_LOOPBACK)};
  base_address_t address = base_address_of_ip(false, &at, (uint16_t)port);
  int fd = base_listen(SOCK_STREAM, &address, 0);
  if (fd >= 0) base_socket_close(fd);
  return fd >= 0;
}

/* `wanted`, or with 0 a free one. Another program may still take it before rank 0 listens on it; so
 * it is not one of those that the system gives to programs that ask for any. */
static coll_status_t find_port(int wanted, int *port) {
  uint16_t random;
  *port = wanted;
  for (int i = 0; wanted == 0 && i < PORT_TRIES; i++) {
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
      return base_fail_errno(COLL_ERROR_SYSTEM,
                             "cannot choose a port, for which getrandom is needed; give --port");
    }
    *port = PORT_FIRST + random % PORT_COUNT;
    if (is_free(*port)) return COLL_OK;
  }
  if (wanted == 0) return base_fail_errno(COLL_ERROR_SYSTEM, "there is no free port");
  if (is_free(wanted)) return COLL_OK;
  if (errno != EADDRINUSE) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot use port %d", wanted);
  return base_fail(COLL_ERROR_SYSTEM,
                   "port %d is in use; give another one, or omit --port to get a free one", wanted);
}

static coll_status_t prepare_output(const collrun_settings_t *settings) {
  if (settings->prefix) {
    setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
    setvbuf(stderr, NULL, _IOFBF, BUFSIZ);
  }
  if (settings->output != NULL && mkdir(settings->output, 0777) != 0 && errno != EEXIST) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "--output %s: cannot create this folder",
                           settings->output);
  }
  return COLL_OK;
}

/* Binding to all cores changes nothing, and fails where binding is forbidden. */
static coll_status_t find_machine(topo_machine_t **machine) {
  COLL_TRY(topo_machine_create(machine));
  const topo_share_t all = {0, topo_machine_facts(*machine).cores};
  coll_status_t status = topo_machine_bind(*machine, all);
  if (status != COLL_OK) topo_machine_destroy(*machine);
  return status;
}

/* Binding is an optimization: if the topology cannot be read, the ranks run unbound. */
static topo_machine_t *machine_to_bind_to(const collrun_settings_t *settings) {
  topo_machine_t *machine;
  if (!settings->bind) return NULL;
  if (find_machine(&machine) == COLL_OK) return machine;
  fprintf(stderr, "collrun: ranks are not bound to cores: %s\n", base_last_error());
  return NULL;
}

/* Where the ranks find each other. */
static coll_status_t find_address(const collrun_settings_t *settings, collrun_address_t *address) {
  if (settings->hosts.count > 0) return collrun_agent_ask(settings, address);
  snprintf(address->text, sizeof address->text, "%s",
           settings->address != NULL ? settings->address : "127.0.0.1");
  address->port = settings->port;
  return settings->is_agent ? COLL_OK : find_port(settings->port, &address->port);
}

static coll_status_t print_address(const collrun_settings_t *settings) {
  int port;
  COLL_TRY(find_port(settings->port, &port));
  return collrun_agent_print_address(port);
}

static coll_status_t print_layout(const collrun_settings_t *settings) {
  topo_machine_t *machine = machine_to_bind_to(settings);
  coll_status_t status = collrun_layout_print(settings->ranks, settings->map, machine);
  topo_machine_destroy(machine);
  return status;
}

static coll_status_t run_job(const collrun_settings_t *settings, int *exit_code) {
  collrun_address_t address;
  if (settings->hosts.count > 0 || settings->is_agent) COLL_TRY(base_handshake_check_hosts());
  COLL_TRY(find_address(settings, &address));
  COLL_TRY(prepare_output(settings));
  topo_machine_t *machine = settings->hosts.count > 0 ? NULL : machine_to_bind_to(settings);
  coll_status_t status = collrun_job_run(settings, machine, &address, exit_code);
  topo_machine_destroy(machine);
  return status;
}

static coll_status_t run(const collrun_settings_t *settings, int *exit_code) {
  if (!settings->print_address && !settings->show_layout) return run_job(settings, exit_code);
  COLL_TRY(settings->print_address ? print_address(settings) : print_layout(settings));
  *exit_code = 0;
  return COLL_OK;
}

static int run_tool(int argc, char **argv) {
  collrun_settings_t settings;
  bool help_printed;
  int exit_code = BASE_EXIT_DONE;
  coll_status_t status = collrun_settings_parse(argc, argv, &settings, &help_printed);
  if (status == COLL_OK && !help_printed) {
    status = base_tool_input(run(&settings, &exit_code));
    collrun_settings_free(&settings);
  }
  if (status == COLL_OK) return exit_code;
  int own_code = base_tool_fail("collrun", status);
  return exit_code != BASE_EXIT_DONE ? exit_code : own_code;
}

int main(int argc, char **argv) {
  return base_tool_main("collrun", run_tool, argc, argv);
}
