/* Lists of network interfaces. */
#include "frontends/nccl/interfaces.h"

#include <stdio.h>
#include <string.h>

/* The prefix of a list of NCCL: ^ excludes what it names, = names whole names. */
typedef struct list {
  bool excludes, whole;
  const char *items;
} list_t;

static list_t parse(const char *text) {
  list_t list = {.items = text};
  if (*list.items == '^') list.excludes = *list.items++ == '^';
  if (*list.items == '=') list.whole = *list.items++ == '=';
  return list;
}

bool nccl_list_translate(const char *text, char *out, size_t bytes) {
  list_t list = parse(text);
  size_t used = 0;
  for (const char *item = list.items; *item != '\0';) {
    size_t length = strcspn(item, ",");
    int written = snprintf(out + used, bytes - used, "%s%s%s%.*s", used > 0 ? "," : "",
                           list.excludes ? "^" : "", list.whole ? "=" : "", (int)length, item);
    if (written < 0 || (size_t)written >= bytes - used) return false;
    used += (size_t)written;
    item += length + (item[length] == ',');
  }
  return used > 0;
}
