/*
 * What a communicator's transports are chosen by: the knobs of this room, and the fields of a
 * config that mean the same. A variable that is set counts before the config.
 */
#ifndef TRANSPORT_SETTINGS_H
#define TRANSPORT_SETTINGS_H

#include "base/knob.h"
#include "topo/host.h"
#include "transport/net/wire/wires.h"

#define TRANSPORT_INTERFACES_BYTES 1024

typedef struct transport_settings {
  transport_choice_t choice;                   /* COLL_TRANSPORTS */
  char host[TOPO_HOST_BYTES];                  /* COLL_HOST_ID; "": the system's identity */
  char interfaces[TRANSPORT_INTERFACES_BYTES]; /* COLL_INTERFACES */
  uint32_t mesh_ranks;                         /* COLL_CONNECT_ALL */
  uint8_t recovery;                            /* COLL_RECONNECT: a net_recovery_t */
} transport_settings_t;

/* What a config says, each in the form of its variable; NULL: nothing. */
typedef struct transport_config {
  const char *transports, *host, *interfaces;
} transport_config_t;

/* The settings of a new communicator. COLL_ERROR_INVALID names the knob with a wrong value. */
coll_status_t transport_settings_read(const transport_config_t *config,
                                      transport_settings_t *settings);

/* Reads again what the config name; the rest stays as it is, as in a split. */
coll_status_t transport_settings_change(const transport_config_t *config,
                                        transport_settings_t *settings);

/* The room's knobs; NULL past the last. */
const base_knob_t *transport_knob(int index);

#endif
