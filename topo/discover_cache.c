/* One file for each host name. Its first line is the key, the rest the graph as JSON. */
#include "topo/discover_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache_file.h"
#include "base/text.h"
#include "topo/discover.h"
#include "topo/host.h"
#include "topo/json.h"
#include "topo/sysfs.h"

#define FORMAT 1 /* changes whenever the same machine gives another graph */
#define KEY_BYTES (TOPO_HOST_BYTES + 64)

static bool find_file(char path[BASE_CACHE_PATH_BYTES]) {
  char host[256] = "", name[48];
  if (gethostname(host, sizeof host - 1) != 0) return false;
  snprintf(name, sizeof name, "topology-%016" PRIx64,
           base_text_hash(BASE_TEXT_HASH_OF_NOTHING, host));
  return base_cache_file(name, path);
}

static bool write_key(char key[KEY_BYTES]) {
  char identity[TOPO_HOST_BYTES];
  if (topo_host_identity(identity) != COLL_OK) return false;
  snprintf(key, KEY_BYTES, "topology %d by %s, %s, devices %016" PRIx64 "\n", FORMAT,
           topo_discover_source(), identity, topo_sysfs_digest(TOPO_SYSFS));
  return true;
}

static bool load(const char *path, const char *key, topo_graph_t **graph) {
  char line[KEY_BYTES + 1];
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool found = fgets(line, sizeof line, file) != NULL && strcmp(line, key) == 0 &&
               topo_graph_read(file, path, graph) == COLL_OK;
  fclose(file);
  return found;
}

static void save(const char *path, const char *key, const topo_graph_t *graph) {
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return;
  bool written = fputs(key, out) >= 0 && topo_graph_write(graph, out) == COLL_OK;
  if (fclose(out) == 0 && written) base_cache_write(path, text, bytes);
  free(text);
}

coll_status_t topo_discover_cached(topo_graph_t **graph, bool *was_cached) {
  char path[BASE_CACHE_PATH_BYTES], key[KEY_BYTES];
  bool has_file = find_file(path) && write_key(key);
  *was_cached = has_file && load(path, key, graph);
  if (*was_cached) return COLL_OK;
  COLL_TRY(topo_discover(graph));
  if (has_file) save(path, key, *graph);
  return COLL_OK;
}

const char *topo_graph_summary(const topo_graph_t *graph, char text[TOPO_SUMMARY_BYTES]) {
  size_t length = 0;
  text[0] = '\0';
  for (int kind = 0; kind < TOPO_KIND_COUNT; kind++) {
    size_t count = topo_graph_count(graph, (topo_kind_t)kind);
    const char *name = topo_kind_name((topo_kind_t)kind);
    if (count == 0 || length >= TOPO_SUMMARY_BYTES) continue;
    const char *plural = count == 1 ? "" : name[strlen(name) - 1] == 'h' ? "es" : "s";
    length += (size_t)snprintf(text + length, TOPO_SUMMARY_BYTES - length, "%s%zu %s%s",
                               length > 0 ? ", " : "", count, name, plural);
  }
  return text;
}
