/* The knobs of this room, and what a config has in their place. */
#include "transport/settings.h"

#include <string.h>

#include "topo/interfaces.h"

static const char *const recoveries[] = {"hosts", "all", "none", NULL}; /* net_recovery_t */

static const base_knob_t knobs[] = {
    {.name = "COLL_TRANSPORTS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "shm,verbs,tcp",
     .help = "the transports that may be used, separated by commas: shm (shared memory, between "
             "ranks of one host), verbs (RDMA, between ranks that have devices), ucx (whatever UCX "
             "knows), tcp"},
    {.name = "COLL_HOST_ID",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "the host that this rank is on, in place of the system's identity: ranks with the "
             "same text share memory"},
    {.name = "COLL_CONNECT_ALL",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "64",
     .min = 0,
     .max = 1000000,
     .help =
         "up to so many ranks of several hosts, all connections are made when a communicator is "
         "created; in larger ones most are made when they are first used; rank 0's counts"},
    {.name = "COLL_RECONNECT",
     .kind = BASE_KNOB_WORD,
     .fallback = "hosts",
     .words = recoveries,
     .help = "the connections that are made again after they were reset, so that nothing that was "
             "under way is lost: hosts (those between hosts), all, or none; rank 0's counts"}};

enum { KNOB_TRANSPORTS, KNOB_HOST_ID, KNOB_CONNECT_ALL, KNOB_RECONNECT, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *transport_knob(int index) {
  if (index >= 0 && index < KNOB_COUNT) return &knobs[index];
  if (index == KNOB_COUNT) return &topo_interfaces_knob;
  index -= KNOB_COUNT + 1;
  for (int i = 0; index >= 0 && wire_kind(i) != NULL; i++) {
    int count = 0;
    const base_knob_t *(*knob)(int) = wire_kind(i)->knob;
    while (knob(count) != NULL) count++;
    if (index < count) return knob(index);
    index -= count;
  }
  return NULL;
}

static coll_status_t read_transports(const char *configured, transport_choice_t *choice) {
  const base_knob_t *knob = &knobs[KNOB_TRANSPORTS];
  char source[BASE_KNOB_SOURCE_BYTES];
  const char *text;
  COLL_TRY(base_knob_choose_text(knob, configured, &text));
  return transport_choice_read(text, base_knob_source(knob, configured, source), choice);
}

/* Copies the value of a text knob. */
static coll_status_t read_text(const base_knob_t *knob, const char *configured, char *copy,
                               size_t bytes) {
  char source[BASE_KNOB_SOURCE_BYTES];
  const char *text;
  COLL_TRY(base_knob_choose_text(knob, configured, &text));
  if (strlen(text) >= bytes) {
    return base_fail(COLL_ERROR_INVALID, "%s%s has %zu characters: give at most %zu", knob->name,
                     base_knob_source(knob, configured, source), strlen(text), bytes - 1);
  }
  memset(copy, 0, bytes);
  memcpy(copy, text, strlen(text));
  return COLL_OK;
}

static coll_status_t read_host(const char *configured, transport_settings_t *settings) {
  return read_text(&knobs[KNOB_HOST_ID], configured, settings->host, sizeof settings->host);
}

static coll_status_t read_interfaces(const char *configured, transport_settings_t *settings) {
  return read_text(&topo_interfaces_knob, configured, settings->interfaces,
                   sizeof settings->interfaces);
}

coll_status_t transport_settings_read(const transport_config_t *config,
                                      transport_settings_t *settings) {
  int64_t mesh_ranks;
  int recovery;
  COLL_TRY(read_transports(config->transports, &settings->choice));
  COLL_TRY(read_host(config->host, settings));
  COLL_TRY(read_interfaces(config->interfaces, settings));
  COLL_TRY(base_knob_integer(&knobs[KNOB_CONNECT_ALL], &mesh_ranks));
  COLL_TRY(base_knob_word(&knobs[KNOB_RECONNECT], &recovery));
  settings->mesh_ranks = (uint32_t)mesh_ranks;
  settings->recovery = (uint8_t)recovery;
  return COLL_OK;
}

coll_status_t transport_settings_change(const transport_config_t *config,
                                        transport_settings_t *settings) {
  if (config->transports != NULL) {
    COLL_TRY(read_transports(config->transports, &settings->choice));
  }
  if (config->host != NULL) COLL_TRY(read_host(config->host, settings));
  return config->interfaces != NULL ? read_interfaces(config->interfaces, settings) : COLL_OK;
}
