/* Every name is kept once, so that a host is one mapping domain. */
#include "tools/collrun/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define RANKS_MAX 4096
#define LINE_BYTES 512

/* where: "--hosts", or file and line. */
static coll_status_t add(collrun_hosts_t *hosts, const char *where, const char *name, size_t length,
                         const char *ranks) {
  int64_t count = 1;
  if (length == 0 || length >= COLLRUN_HOST_BYTES) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: a host's name has 1 to %d characters; write hosts as a:4,b:4", where,
                     COLLRUN_HOST_BYTES - 1);
  }
  if (name[0] == '-') {
    return base_fail(COLL_ERROR_INVALID, "%s: no host's name begins with -", where);
  }
  if (ranks != NULL && !base_text_integer(ranks, 1, RANKS_MAX, &count)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: host %.*s has '%s' ranks; give a number from 1 to %d, as in a:4", where,
                     (int)length, name, ranks, RANKS_MAX);
  }
  for (int i = 0; i < hosts->count; i++) {
    const char *other = hosts->list[i].name;
    if (strlen(other) != length || strncmp(other, name, length) != 0) continue;
    return base_fail(COLL_ERROR_INVALID, "%s: host %s is named twice", where, other);
  }
  size_t capacity = (size_t)hosts->count; /* grows by one: there are few hosts */
  COLL_TRY(base_grow((void **)&hosts->list, &capacity, capacity + 1, sizeof *hosts->list, "hosts"));
  collrun_host_t *host = &hosts->list[hosts->count++];
  *host = (collrun_host_t){.first = hosts->ranks, .ranks = (int)count};
  memcpy(host->name, name, length);
  hosts->ranks += (int)count;
  if (hosts->ranks <= RANKS_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s: the hosts have %d ranks, the limit is %d", where,
                   hosts->ranks, RANKS_MAX);
}

/* "a" or "a:4". Names of IPv6 addresses are written in brackets, as [fe80::1]:4. */
static coll_status_t add_word(collrun_hosts_t *hosts, const char *where, char *word) {
  bool has_bracket = word[0] == '[';
  char *name = has_bracket ? word + 1 : word;
  size_t length = strcspn(name, has_bracket ? "]" : ":");
  char *rest = name + length + (has_bracket && name[length] == ']');
  if (*rest != '\0' && *rest != ':') {
    return base_fail(COLL_ERROR_INVALID, "%s: '%s' is no host; write hosts as a:4,b:4", where,
                     word);
  }
  return add(hosts, where, name, length, *rest == ':' ? rest + 1 : NULL);
}

coll_status_t collrun_hosts_parse(const char *text, collrun_hosts_t *hosts) {
  char *copy = strdup(text), *rest = copy, *word;
  *hosts = (collrun_hosts_t){0};
  if (copy == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for hosts");
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && (word = strsep(&rest, ",")) != NULL) {
    status = add_word(hosts, "--hosts", word);
  }
  free(copy);
  if (status != COLL_OK) collrun_hosts_free(hosts);
  return status;
}

static coll_status_t add_line(collrun_hosts_t *hosts, const char *where, char *line) {
  static const char blanks[] = " \t\r";
  char *rest;
  line[strcspn(line, "#\n")] = '\0';
  char *name = strtok_r(line, blanks, &rest), *slots = strtok_r(NULL, blanks, &rest);
  if (name == NULL) return COLL_OK;
  if (slots == NULL) return add_word(hosts, where, name);
  if (strncmp(slots, "slots=", 6) == 0 && strtok_r(NULL, blanks, &rest) == NULL) {
    return add(hosts, where, name, strlen(name), slots + 6);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "%s: '%s' is not understood; write a host as a:4 or as a slots=4", where, slots);
}

coll_status_t collrun_hosts_read(const char *file_name, collrun_hosts_t *hosts) {
  char line[LINE_BYTES], where[LINE_BYTES];
  FILE *file = fopen(file_name, "re");
  *hosts = (collrun_hosts_t){0};
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "--hostfile %s", file_name);
  coll_status_t status = COLL_OK;
  for (int number = 1; status == COLL_OK && fgets(line, sizeof line, file) != NULL; number++) {
    snprintf(where, sizeof where, "%.400s:%d", file_name, number);
    status = add_line(hosts, where, line);
  }
  fclose(file);
  if (status == COLL_OK && hosts->count == 0) {
    status = base_fail(COLL_ERROR_INVALID, "--hostfile %s: there is no host in it", file_name);
  }
  if (status != COLL_OK) collrun_hosts_free(hosts);
  return status;
}

void collrun_hosts_free(collrun_hosts_t *hosts) {
  free(hosts->list);
  *hosts = (collrun_hosts_t){0};
}
