/* The table of netmods, and the choice among all transports. */
#include "transport/netmods.h"

#include <stdio.h>
#include <string.h>

#include "transport/ucx/ucx.h"
#include "transport/verbs/verbs.h"

static const transport_netmod_kind_t kinds[] = {
    {"verbs", transport_verbs_open, transport_verbs_knob},
    {"ucx", transport_ucx_open, transport_ucx_knob},
    {NULL}};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] - 1 };

_Static_assert(KIND_COUNT <= TRANSPORT_NETMODS_MAX, "a choice has room for all");

const transport_netmod_kind_t *transport_netmod_kind(int index) {
  return index >= 0 && index < KIND_COUNT ? &kinds[index] : NULL;
}

static bool is_name(const char *text, size_t length, const char *name) {
  return strlen(name) == length && strncmp(text, name, length) == 0;
}

static bool add_netmod(const char *text, size_t length, transport_choice_t *choice) {
  int kind = 0;
  while (kind < KIND_COUNT && !is_name(text, length, kinds[kind].name)) kind++;
  if (kind == KIND_COUNT) return false;
  for (int i = 0; i < choice->netmod_count; i++) {
    if (choice->netmods[i] == kind) return true;
  }
  choice->netmods[choice->netmod_count++] = kind;
  return true;
}

static coll_status_t fail_name(const char *text, const char *source) {
  char names[128] = "shm, tcp";
  for (int i = 0; i < KIND_COUNT; i++) {
    size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, ", %s", kinds[i].name);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "COLL_TRANSPORTS is \"%s\"%s: give one or more of %s, separated by commas", text,
                   source, names);
}

coll_status_t transport_choice_read(const char *text, const char *source,
                                    transport_choice_t *choice) {
  const char *at = text;
  *choice = (transport_choice_t){0};
  for (;;) {
    size_t length = strcspn(at, ",");
    if (is_name(at, length, "shm")) {
      choice->shm = true;
    } else if (is_name(at, length, "tcp")) {
      choice->tcp = true;
    } else if (!add_netmod(at, length, choice)) {
      return fail_name(text, source);
    }
    if (at[length] == '\0') return COLL_OK;
    at += length + 1;
  }
}

coll_status_t transport_netmod_open(const transport_choice_t *choice, int *kind,
                                    tcp_netmod_t **netmod, char *why, size_t bytes) {
  *kind = -1;
  *netmod = NULL;
  if (bytes > 0) why[0] = '\0';
  for (int i = 0; i < choice->netmod_count; i++) {
    const transport_netmod_kind_t *tried = &kinds[choice->netmods[i]];
    coll_status_t status = tried->open(netmod);
    if (status == COLL_ERROR_INVALID) return status;
    if (status == COLL_OK) {
      *kind = choice->netmods[i];
      return COLL_OK;
    }
    size_t length = strlen(why);
    snprintf(why + length, bytes - length, "%s%s: %s", length > 0 ? "; " : "", tried->name,
             base_last_error());
  }
  return COLL_OK;
}
