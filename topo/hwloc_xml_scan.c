/* Searches the text for elements; nothing else is parsed. */
#include "topo/hwloc_xml_scan.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 40 };

static int line_of(const char *text, const char *at) {
  int line = 1;
  for (; text < at; text++) line += *text == '\n';
  return line;
}

/* The first "<name" from `at` on, as a whole word; NULL: none. */
static const char *find_element(const char *at, const char *end, const char *name) {
  size_t length = strlen(name);
  while (at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
    at++;
    if ((size_t)(end - at) <= length || memcmp(at, name, length) != 0) continue;
    if (strchr(" \t\r\n/>", at[length]) != NULL) return at - 1;
  }
  return NULL;
}

/* The value of an attribute of the element that begins at `at`, cut to VALUE_BYTES. */
static bool find_attribute(const char *at, const char *end, const char *name,
                           char value[VALUE_BYTES]) {
  size_t length = strlen(name);
  for (; at < end && *at != '>'; at++) {
    if (strchr(" \t\r\n", *at) == NULL || (size_t)(end - at) < length + 4) continue;
    if (memcmp(at + 1, name, length) != 0 || at[length + 1] != '=') continue;
    char quote = at[length + 2];
    if (quote != '"' && quote != '\'') continue;
    size_t i = 0;
    for (at += length + 3; at < end && *at != quote && i + 1 < VALUE_BYTES; at++) {
      value[i++] = *at >= ' ' && *at <= '~' ? *at : '?';
    }
    value[i] = '\0';
    return true;
  }
  return false;
}

bool topo_hwloc_xml_version(const char *text, size_t bytes, int *major, int *minor, int *line) {
  char value[VALUE_BYTES], *rest;
  const char *element = find_element(text, text + bytes, "topology");
  if (element == NULL || !find_attribute(element, text + bytes, "version", value)) return false;
  long number = strtol(value, &rest, 10);
  if (rest == value || number < 0 || number > 1000000) return false;
  *major = (int)number;
  number = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
  *minor = number < 0 || number > 1000000 ? 0 : (int)number;
  *line = line_of(text, element);
  return true;
}

bool topo_hwloc_xml_is_whole(const char *text, size_t bytes) {
  const char *end = text + bytes;
  return find_element(text, end, "/topology") != NULL || find_element(text, end, "/root") != NULL;
}

/* Whether an element is of bandwidths, by its name or kind. */
static bool is_bandwidth(const char *at, const char *end, char name[VALUE_BYTES]) {
  enum { KIND_BANDWIDTH = 8 }; /* HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH */
  char kind[VALUE_BYTES];
  if (!find_attribute(at, end, "name", name)) name[0] = '\0';
  if (strstr(name, "Bandwidth") != NULL) return true;
  return find_attribute(at, end, "kind", kind) && (strtoul(kind, NULL, 10) & KIND_BANDWIDTH) != 0;
}

void topo_hwloc_xml_warn(const char *text, size_t bytes, const char *file_name, FILE *warnings) {
  static const char *const elements[] = {"distances2", "distances2hetero", "memattr"};
  char name[VALUE_BYTES];
  for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
    const char *at = text, *end = text + bytes;
    while ((at = find_element(at, end, elements[i])) != NULL) {
      if (is_bandwidth(at, end, name)) {
        fprintf(warnings,
                "warning: %s:%d: <%s name=\"%s\"> is left out: of hwloc's bandwidths only "
                "those of PCIe are read\n",
                file_name, line_of(text, at), elements[i], name);
      }
      at++;
    }
  }
}
