/* Reads lists of devices element by element, without a copy. */
#include "transport/net/wire/verbs/choose.h"

#include <stddef.h>
#include <string.h>

#define ANY_PORT (-1)
#define PORT_MAX 255

/* An element of the list. */
typedef struct element {
  const char *name;
  size_t length;
  int port;
  bool excludes, is_whole;
} element_t;

/* What stands before all elements. */
static const char *read_prefix(const char *text, bool *excludes, bool *is_whole) {
  *excludes = *text == '^';
  if (*excludes) text++;
  *is_whole = *text == '=';
  return *is_whole ? text + 1 : text;
}

static bool read_port(const char *text, size_t length, int *port) {
  *port = 0;
  if (length == 0 || length > 3) return false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    *port = *port * 10 + (text[i] - '0');
  }
  return *port >= 1 && *port <= PORT_MAX;
}

/* Reads the element at *at and goes on to the next one; *at is NULL behind the last. */
static bool read_element(const char **at, element_t *element) {
  const char *text = read_prefix(*at, &element->excludes, &element->is_whole);
  size_t length = strcspn(text, ","), name = strcspn(text, ":,");
  bool is_valid = name > 0;
  element->name = text;
  element->length = name;
  element->port = ANY_PORT;
  if (name < length) {
    is_valid = read_port(text + name + 1, length - name - 1, &element->port) && is_valid;
  }
  *at = text[length] == ',' ? text + length + 1 : NULL;
  return is_valid;
}

bool verbs_hca_is_list(const char *list) {
  element_t element;
  const char *at = list;
  if (*list == '\0') return true;
  while (at != NULL) {
    if (!read_element(&at, &element)) return false;
  }
  return true;
}

static bool matches(const element_t *element, const char *device, int port) {
  if (element->port != ANY_PORT && element->port != port) return false;
  if (strncmp(device, element->name, element->length) != 0) return false;
  return !element->is_whole || device[element->length] == '\0';
}

bool verbs_hca_allows(const char *list, const char *device, int port) {
  bool all_exclude, all_whole, asks = false, matched = false;
  const char *at = list;
  if (*list == '\0') return true;
  (void)read_prefix(list, &all_exclude, &all_whole);
  while (at != NULL) {
    element_t element;
    if (!read_element(&at, &element)) return false;
    element.is_whole = element.is_whole || all_whole;
    bool found = matches(&element, device, port);
    if (element.excludes || all_exclude) {
      if (found) return false;
    } else {
      asks = true;
      matched = matched || found;
    }
  }
  return matched || !asks;
}

/* ---- addresses ------------------------------------------------------------------------------*/

static bool is_zero(const uint8_t *bytes, int count) {
  while (count > 0 && bytes[count - 1] == 0) count--;
  return count == 0;
}

/* The lower the better; -1: not to be used. */
static int rank_of(const verbs_gid_t *gid) {
  const uint8_t *bytes = gid->bytes;
  int rank = gid->is_v2 ? 0 : 3;
  if (is_zero(bytes, 16)) return -1;
  if (is_zero(bytes, 10) && bytes[10] == 0xff && bytes[11] == 0xff) return rank;
  bool is_link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return rank + (is_link_local ? 2 : 1);
}

int verbs_gid_choose(const verbs_gid_t gids[], int count) {
  int best = -1, best_rank = -1;
  for (int i = 0; i < count; i++) {
    int rank = rank_of(&gids[i]);
    if (rank < 0 || (best >= 0 && best_rank <= rank)) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}
