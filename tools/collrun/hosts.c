/* A host's name is kept once, however often it is named, so that a host is one mapping domain: its
 * slots are added up. A line is a sequence of words, '=' and ','. */
#include "tools/collrun/hosts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lines.h"
#include "base/text.h"

#define WHERE_BYTES 512

/* ---- hosts ----------------------------------------------------------------------------------*/

static coll_status_t find_or_add(collrun_hosts_t *hosts, const char *name, size_t length,
                                 collrun_host_t **host) {
  for (int i = 0; i < hosts->count; i++) {
    *host = &hosts->list[i];
    if (strlen((*host)->name) == length && strncmp((*host)->name, name, length) == 0) {
      return COLL_OK;
    }
  }
  size_t capacity = (size_t)hosts->count; /* grows by one: there are few hosts */
  COLL_TRY(base_grow((void **)&hosts->list, &capacity, capacity + 1, sizeof *hosts->list, "hosts"));
  *host = &hosts->list[hosts->count++];
  **host = (collrun_host_t){0};
  memcpy((*host)->name, name, length);
  return COLL_OK;
}

/* where: "--hosts", or file and line. */
static coll_status_t add(collrun_hosts_t *hosts, const char *where, const char *name, size_t length,
                         int slots) {
  collrun_host_t *host;
  COLL_TRY(find_or_add(hosts, name, length, &host));
  host->ranks += slots;
  hosts->ranks += slots;
  if (hosts->ranks <= COLLRUN_RANKS_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s: the hosts have %d slots, the limit is %d", where,
                   hosts->ranks, COLLRUN_RANKS_MAX);
}

static void number(collrun_hosts_t *hosts) {
  int first = 0;
  for (int i = 0; i < hosts->count; i++) {
    hosts->list[i].first = first;
    first += hosts->list[i].ranks;
  }
}

/* Ranks beyond the slots go to the hosts in turn. */
void collrun_hosts_fill(collrun_hosts_t *hosts, int ranks) {
  int left = ranks, used = 0;
  while (used < hosts->count && left > 0) {
    collrun_host_t *host = &hosts->list[used++];
    if (host->ranks > left) host->ranks = left;
    left -= host->ranks;
  }
  hosts->count = used;
  for (int i = 0; left > 0; i++, left--) hosts->list[i % used].ranks++;
  hosts->ranks = ranks;
  number(hosts);
}

coll_status_t collrun_hosts_set_slots(collrun_hosts_t *hosts, int slots) {
  if (slots > COLLRUN_RANKS_MAX / hosts->count) {
    return base_fail(COLL_ERROR_INVALID, "%d ranks on each of %d hosts, the limit is %d", slots,
                     hosts->count, COLLRUN_RANKS_MAX);
  }
  for (int i = 0; i < hosts->count; i++) hosts->list[i].ranks = slots;
  hosts->ranks = slots * hosts->count;
  number(hosts);
  return COLL_OK;
}

/* ---- words ----------------------------------------------------------------------------------*/

typedef struct entry {
  const char *where, *host; /* host: as it is written, for messages */
  int host_length;
  const char *name;
  size_t length;
  int64_t slots, slots_max; /* 0: not given */
} entry_t;

/* The next word, '=' or ',' of a text; its length is 0 at the end. */
static size_t next_word(const char **at) {
  *at += strspn(*at, " \t\r\f\v");
  if (**at == '=' || **at == ',') return 1;
  return strcspn(*at, " \t\r\f\v=,");
}

static bool is_mark(const char *at, char mark) {
  return at[strspn(at, " \t\r\f\v")] == mark;
}

static coll_status_t read_slots(const entry_t *entry, const char *word, size_t length,
                                int64_t *slots) {
  char number[16];
  base_text_word(word, length, number, sizeof number);
  if (base_text_integer(number, 1, COLLRUN_RANKS_MAX, slots)) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID, "%s: host %.*s has '%.*s' ranks; give a number from 1 to %d, as in a:4",
      entry->where, (int)entry->length, entry->name, (int)length, word, COLLRUN_RANKS_MAX);
}

static bool is_name(const char *name, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)name[i];
    if (!isalnum(c) && c < 0x80 && strchr(".-_:@%/", c) == NULL) return false;
  }
  return true;
}

static coll_status_t check_name(const entry_t *entry) {
  if (entry->length == 0 || entry->length >= COLLRUN_HOST_BYTES) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: '%.*s': a host's name has 1 to %d characters; write hosts as a:4,b:4",
                     entry->where, entry->host_length, entry->host, COLLRUN_HOST_BYTES - 1);
  }
  if (entry->name[0] == '-') {
    return base_fail(COLL_ERROR_INVALID, "%s: '%.*s': no host's name begins with -", entry->where,
                     entry->host_length, entry->host);
  }
  if (is_name(entry->name, entry->length)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s: '%.*s' is no host; write hosts as a:4,b:4",
                   entry->where, entry->host_length, entry->host);
}

/* "a" or "a:4". Names of IPv6 addresses are written in brackets, as [fe80::1]:4. */
static coll_status_t read_host(entry_t *entry, const char *word, size_t length) {
  bool has_bracket = word[0] == '[';
  const char *end = word + length;
  *entry = (entry_t){.where = entry->where, .host = word, .host_length = (int)length};
  entry->name = word + has_bracket;
  const char *name_end = memchr(entry->name, has_bracket ? ']' : ':', (size_t)(end - entry->name));
  if (name_end == NULL) name_end = end;
  entry->length = (size_t)(name_end - entry->name);
  const char *rest = has_bracket && name_end < end ? name_end + 1 : name_end;
  if ((has_bracket && name_end == end) || (rest < end && *rest != ':')) entry->length = 0;
  COLL_TRY(check_name(entry));
  if (rest == end) return COLL_OK;
  return read_slots(entry, rest + 1, (size_t)(end - rest) - 1, &entry->slots);
}

/* ---- keys -----------------------------------------------------------------------------------*/

static bool is_key(const char *word, size_t length, const char *const keys[]) {
  for (; *keys != NULL; keys++) {
    if (strlen(*keys) == length && strncmp(word, *keys, length) == 0) return true;
  }
  return false;
}

static coll_status_t refuse_key(const entry_t *entry, const char *from, const char *to) {
  return base_fail(COLL_ERROR_INVALID,
                   "%s: '%.*s' is not understood; write a host as a:4 or as a slots=4",
                   entry->where, (int)(to - from), from);
}

/* "slots=4", with blanks around '='. Moves *at past it. */
static coll_status_t read_key(entry_t *entry, const char **at, size_t length) {
  static const char *const slots_keys[] = {"slots", "cpu", "count", NULL};
  static const char *const max_keys[] = {"max_slots", "max-slots", "slots_max", "slots-max", NULL};
  const char *key = *at, *value;
  int64_t slots;
  *at += length;
  if (!is_mark(*at, '=')) return refuse_key(entry, key, *at);
  *at += next_word(at); /* the '=' */
  size_t value_length = next_word(at);
  value = *at;
  bool is_slots = is_key(key, length, slots_keys), is_max = is_key(key, length, max_keys);
  if (!is_slots && !is_max) return refuse_key(entry, key, value + value_length);
  *at += value_length;
  COLL_TRY(read_slots(entry, value, value_length, &slots));
  if (is_slots && entry->slots > 0 && entry->slots != slots) {
    return base_fail(COLL_ERROR_INVALID, "%s: '%.*s': host %.*s has %d slots already", entry->where,
                     (int)(*at - key), key, entry->host_length, entry->host, (int)entry->slots);
  }
  *(is_slots ? &entry->slots : &entry->slots_max) = slots;
  return COLL_OK;
}

static coll_status_t add_entry(collrun_hosts_t *hosts, const entry_t *entry) {
  int64_t slots = entry->slots > 0 ? entry->slots : entry->slots_max > 0 ? entry->slots_max : 1;
  if (entry->slots_max > 0 && slots > entry->slots_max) {
    return base_fail(COLL_ERROR_INVALID, "%s: host %.*s has %d slots, more than its max_slots %d",
                     entry->where, (int)entry->length, entry->name, (int)slots,
                     (int)entry->slots_max);
  }
  return add(hosts, entry->where, entry->name, entry->length, (int)slots);
}

/* Hosts with commas between them, each with its keys. */
static coll_status_t read_hosts(collrun_hosts_t *hosts, const char *where, const char *text) {
  const char *at = text;
  for (;;) {
    entry_t entry = {.where = where};
    size_t length = next_word(&at);
    if (length > 0 && (*at == ',' || *at == '=')) length = 0;
    COLL_TRY(read_host(&entry, at, length));
    at += length;
    while ((length = next_word(&at)) > 0 && *at != ',') COLL_TRY(read_key(&entry, &at, length));
    COLL_TRY(add_entry(hosts, &entry));
    if (length == 0) return COLL_OK;
    at++;
  }
}

coll_status_t collrun_hosts_parse(const char *text, collrun_hosts_t *hosts) {
  *hosts = (collrun_hosts_t){0};
  coll_status_t status = read_hosts(hosts, "--hosts", text);
  number(hosts);
  if (status != COLL_OK) collrun_hosts_free(hosts);
  return status;
}

/* ---- files ----------------------------------------------------------------------------------*/

static coll_status_t read_line(collrun_hosts_t *hosts, const char *file_name,
                               const base_lines_t *lines) {
  char where[WHERE_BYTES];
  snprintf(where, sizeof where, "%.400s:%d", file_name, lines->number);
  if (strlen(lines->text) != lines->length) {
    return base_fail(COLL_ERROR_INVALID, "%s: a zero byte: this is not a text file in UTF-8",
                     where);
  }
  lines->text[strcspn(lines->text, "#")] = '\0';
  const char *at = lines->text;
  return next_word(&at) == 0 ? COLL_OK : read_hosts(hosts, where, lines->text);
}

coll_status_t collrun_hosts_read(const char *file_name, collrun_hosts_t *hosts) {
  FILE *file = fopen(file_name, "re");
  base_lines_t lines = {0};
  *hosts = (collrun_hosts_t){0};
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "--hostfile %s", file_name);
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && base_lines_next(&lines, file)) {
    status = read_line(hosts, file_name, &lines);
  }
  coll_status_t ended = base_lines_end(&lines, file_name);
  fclose(file);
  if (status == COLL_OK) status = ended;
  if (status == COLL_OK && hosts->count == 0) {
    status = base_fail(COLL_ERROR_INVALID, "--hostfile %s: there is no host in it", file_name);
  }
  number(hosts);
  if (status != COLL_OK) collrun_hosts_free(hosts);
  return status;
}

void collrun_hosts_free(collrun_hosts_t *hosts) {
  free(hosts->list);
  *hosts = (collrun_hosts_t){0};
}
