/* What is found out without the other host. A file of each host has the pairs that were measured
 * last. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "calibrate/network.h"
#include "topo/cost_cache.h"

#define HOLD_S 3600

enum { FIGURES = 5, NAME_BYTES = 32 };

/* By which the hosts are put in order. */
static int compare_hosts(const comm_network_host_t *one, const comm_network_host_t *other) {
  if (one->kernel != other->kernel) return one->kernel < other->kernel ? -1 : 1;
  if (one->megabits != other->megabits) return one->megabits < other->megabits ? -1 : 1;
  if (one->rails != other->rails) return one->rails < other->rails ? -1 : 1;
  return (one->containers > other->containers) - (one->containers < other->containers);
}

static uint64_t hash_host(uint64_t hash, const comm_network_host_t *host) {
  char text[64];
  snprintf(text, sizeof text, "%016" PRIx64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " ", host->kernel,
           host->megabits, host->rails, host->containers);
  return base_text_hash(hash, text);
}

uint64_t calibrate_network_key(const comm_network_host_t *one, const comm_network_host_t *other,
                               const char *route) {
  bool in_order = compare_hosts(one, other) <= 0;
  if (one->kernel == 0 || other->kernel == 0) return 0;
  uint64_t hash = hash_host(BASE_TEXT_HASH_OF_NOTHING, in_order ? one : other);
  return base_text_hash(hash_host(hash, in_order ? other : one), route);
}

bool calibrate_network_holds(const comm_network_cost_t *cost, uint64_t hop_ps, int64_t now_s) {
  int64_t age_s = now_s - cost->measured_s;
  if (age_s < 0 || age_s >= HOLD_S) return false;
  return hop_ps == 0 || (hop_ps < 2 * cost->hop_ps && cost->hop_ps < 2 * hop_ps);
}

static int compare(const void *left, const void *right) {
  const uint64_t *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

uint64_t calibrate_network_hop_ps(uint64_t trips_ns[], int count) {
  qsort(trips_ns, (size_t)count, sizeof *trips_ns, compare);
  bool is_steady = trips_ns[count / 2] <= CALIBRATE_NETWORK_STEADY * trips_ns[0];
  return is_steady ? trips_ns[0] * 1000 / 2 + 1 : 0;
}

/* ---- the file -------------------------------------------------------------------------------*/

/* Hosts may share the folder of the cache. */
static void name_variant(char variant[64]) {
  char host[48] = "";
  (void)gethostname(host, sizeof host - 1);
  snprintf(variant, 64, "network of %s", host);
}

static void name_figures(uint64_t key, char texts[FIGURES][NAME_BYTES],
                         const char *names[FIGURES]) {
  static const char *const figures[FIGURES] = {"hop_ps", "send_ps", "one_way_ps", "both_ways_ps",
                                               "measured_s"};
  for (int i = 0; i < FIGURES; i++) {
    snprintf(texts[i], NAME_BYTES, "%016" PRIx64 "_%s", key, figures[i]);
    names[i] = texts[i];
  }
}

bool calibrate_network_load(uint64_t key, comm_network_cost_t *cost) {
  char variant[64], texts[FIGURES][NAME_BYTES];
  const char *names[FIGURES];
  int64_t values[FIGURES];
  name_variant(variant);
  name_figures(key, texts, names);
  if (key == 0 || !topo_cost_cache_load(variant, names, FIGURES, values)) return false;
  const comm_network_cost_t found = {.hop_ps = (uint64_t)values[0],
                                     .send_ps = (uint64_t)values[1],
                                     .one_way_ps = (uint64_t)values[2],
                                     .both_ways_ps = (uint64_t)values[3],
                                     .measured_s = values[4]};
  if (found.hop_ps == 0 || found.send_ps > found.hop_ps) return false;
  if (!calibrate_network_is_plausible(&found)) return false;
  *cost = found;
  return true;
}

void calibrate_network_save(uint64_t key, const comm_network_cost_t *cost) {
  char variant[64], texts[FIGURES][NAME_BYTES];
  const char *names[FIGURES];
  const int64_t values[FIGURES] = {(int64_t)cost->hop_ps, (int64_t)cost->send_ps,
                                   (int64_t)cost->one_way_ps, (int64_t)cost->both_ways_ps,
                                   cost->measured_s};
  name_variant(variant);
  name_figures(key, texts, names);
  if (key != 0) topo_cost_cache_save(variant, names, FIGURES, values);
}
