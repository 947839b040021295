/* The table of wires, and the choice among all transports. */
#include "transport/net/wire/wires.h"

#include <stdio.h>
#include <string.h>

#include "transport/net/wire/ucx/ucx.h"
#include "transport/net/wire/verbs/verbs.h"

static const wire_kind_t kinds[] = {
    {"verbs", verbs_wire_open, verbs_wire_knob}, {"ucx", ucx_wire_open, ucx_wire_knob}, {NULL}};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] - 1 };

_Static_assert(KIND_COUNT <= WIRE_KINDS_MAX, "a choice has room for all");

const wire_kind_t *wire_kind(int index) {
  return index >= 0 && index < KIND_COUNT ? &kinds[index] : NULL;
}

static bool is_name(const char *text, size_t length, const char *name) {
  return strlen(name) == length && strncmp(text, name, length) == 0;
}

static bool add_wire(const char *text, size_t length, transport_choice_t *choice) {
  int kind = 0;
  while (kind < KIND_COUNT && !is_name(text, length, kinds[kind].name)) kind++;
  if (kind == KIND_COUNT) return false;
  for (int i = 0; i < choice->wire_count; i++) {
    if (choice->wires[i] == kind) return true;
  }
  choice->wires[choice->wire_count++] = kind;
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
    } else if (!add_wire(at, length, choice)) {
      return fail_name(text, source);
    }
    if (at[length] == '\0') return COLL_OK;
    at += length + 1;
  }
}

coll_status_t wire_open_first(const transport_choice_t *choice, int *kind, wire_t **wire, char *why,
                              size_t bytes) {
  *kind = -1;
  *wire = NULL;
  if (bytes > 0) why[0] = '\0';
  for (int i = 0; i < choice->wire_count; i++) {
    const wire_kind_t *tried = &kinds[choice->wires[i]];
    coll_status_t status = tried->open(wire);
    if (status == COLL_ERROR_INVALID) return status;
    if (status == COLL_OK) {
      *kind = choice->wires[i];
      return COLL_OK;
    }
    size_t length = strlen(why);
    snprintf(why + length, bytes - length, "%s%s: %s", length > 0 ? "; " : "", tried->name,
             base_last_error());
  }
  return COLL_OK;
}
