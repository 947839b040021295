/*
 * The tree of PCI functions. The path of a device in sysfs has a folder for each bridge above it:
 * devices/pci0000:00/0000:00:01.0/0000:01:00.0. In the order of their paths, the devices below a
 * bridge are neighbours.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/sysfs.h"
#include "topo/sysfs_graph.h"

#define STEPS_MAX 16 /* of bridges above a device, with itself */
#define A_ROOT (-2)  /* in place of an address: a root complex */

typedef topo_sysfs_walk_t walk_t;
typedef topo_host_place_t place_t;

/* A GPU or NIC. */
typedef struct device {
  int64_t steps[STEPS_MAX]; /* addresses from the root complex to the device */
  char *folders[STEPS_MAX]; /* of `path`: its beginning up to each step, owned */
  int count;
  bool is_gpu;
  char model[TOPO_NAME_BYTES];
} device_t;

typedef struct tree {
  walk_t *walk;
  device_t *devices;
  size_t count, capacity;
  topo_sysfs_nic_t *nics;
  size_t nic_count;
  int32_t pcis, gpus, nic_nodes;
} tree_t;

/* ---- devices ------------------------------------------------------------------------------- */

static unsigned long hex_of(const char *folder, const char *name) {
  char line[TOPO_SYSFS_LINE_BYTES];
  topo_sysfs_line(folder, ".", name, line);
  return strtoul(line, NULL, 16);
}

/* The last network device of the function in topo_sysfs_nics' order comes behind OpenFabrics. */
static const topo_sysfs_nic_t *nic_of(const tree_t *tree, int64_t address) {
  for (size_t i = 0; i < tree->nic_count; i++) {
    if (tree->nics[i].address == address) return &tree->nics[i];
  }
  return NULL;
}

/* Appends the step that ends at `end`, if it is a PCI function or a root complex. */
static bool add_step(device_t *device, const char *path, const char *name, size_t end) {
  int64_t address = A_ROOT;
  bool is_root = strncmp(name, "pci", 3) == 0 && strchr(name, ':') != NULL; /* pci0000:00 */
  if (!is_root && !topo_sysfs_parse_address(name, &address)) return true;
  if (device->count == STEPS_MAX) return false;
  char *folder = strndup(path, end);
  if (folder == NULL) return false;
  device->folders[device->count] = folder;
  device->steps[device->count++] = address;
  return true;
}

static void free_device(device_t *device) {
  for (int i = 0; i < device->count; i++) free(device->folders[i]);
}

static bool find_steps(const char *path, device_t *device) {
  char name[NAME_MAX + 1];
  for (const char *at = path; *at != '\0';) {
    size_t bytes = strcspn(at, "/");
    snprintf(name, sizeof name, "%.*s", (int)(bytes < NAME_MAX ? bytes : NAME_MAX), at);
    if (!add_step(device, path, name, (size_t)(at - path) + bytes)) return false;
    at += bytes + (at[bytes] == '/');
  }
  return device->count > 0 && device->steps[device->count - 1] != A_ROOT;
}

static void add_device(tree_t *tree, const char *folder, const char *name) {
  char link[PATH_MAX], path[PATH_MAX];
  device_t device = {0};
  topo_builder_t *b = &tree->walk->b;
  if (snprintf(link, sizeof link, "%s/%s", folder, name) >= (int)sizeof link) return;
  if (realpath(link, path) == NULL || !find_steps(path, &device)) {
    free_device(&device);
    return;
  }
  const topo_sysfs_nic_t *nic = nic_of(tree, device.steps[device.count - 1]);
  device.is_gpu = nic == NULL && topo_pci_is_gpu((unsigned)hex_of(path, "class") >> 8,
                                                 (unsigned)hex_of(path, "vendor"));
  if (nic != NULL) snprintf(device.model, sizeof device.model, "%s", nic->name);
  if ((nic != NULL || device.is_gpu) && b->status == COLL_OK) {
    b->status = base_grow((void **)&tree->devices, &tree->capacity, tree->count + 1,
                          sizeof *tree->devices, "PCI devices");
  }
  if ((nic != NULL || device.is_gpu) && b->status == COLL_OK) {
    tree->devices[tree->count++] = device;
  } else {
    free_device(&device);
  }
}

static int by_path(const void *left, const void *right) {
  const device_t *a = left, *b = right;
  return strcmp(a->folders[a->count - 1], b->folders[b->count - 1]);
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static void find_devices(tree_t *tree) {
  char folder[PATH_MAX];
  struct dirent **entries;
  snprintf(folder, sizeof folder, "%s/bus/pci/devices", tree->walk->root);
  int count = scandir(folder, &entries, is_visible, alphasort);
  for (int i = 0; i < count; i++) {
    add_device(tree, folder, entries[i]->d_name);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  if (tree->count > 1) qsort(tree->devices, tree->count, sizeof *tree->devices, by_path);
}

/* ---- the graph ----------------------------------------------------------------------------- */

static place_t narrowed(place_t at, const char *folder) {
  char speed[TOPO_SYSFS_LINE_BYTES], width[TOPO_SYSFS_LINE_BYTES];
  topo_sysfs_line(folder, ".", "current_link_speed", speed);
  topo_sysfs_line(folder, ".", "current_link_width", width);
  return topo_host_narrowed(at, topo_pci_gbs(strtod(speed, NULL), strtod(width, NULL)));
}

/* The part near a device. */
static int32_t node_near(walk_t *w, const device_t *device) {
  char path[PATH_MAX];
  topo_cpus_t near;
  snprintf(path, sizeof path, "%s/local_cpulist", device->folders[device->count - 1]);
  if (!topo_cpus_read(path, &near) || topo_cpus_count(&near) == 0) near = w->online;
  topo_sysfs_part_t *part = topo_sysfs_part_of(w, &near);
  return part != NULL ? part->node : w->host;
}

/* The number of devices from `first` on that have the same step. */
static size_t span(const tree_t *tree, size_t first, size_t end, int step) {
  const device_t *one = &tree->devices[first];
  size_t at = first + 1;
  while (at < end && tree->devices[at].count > step &&
         strcmp(tree->devices[at].folders[step], one->folders[step]) == 0) {
    at++;
  }
  return at - first;
}

/* Functions of one device differ in their lowest three bits. */
static bool are_one_device(const device_t *a, const device_t *b, int step) {
  return a->count == step + 1 && b->count == step + 1 && a->steps[step] >> 3 == b->steps[step] >> 3;
}

/* Whether two devices or more are reached through different children of a bridge. */
static bool divides(const tree_t *tree, size_t first, size_t end, int step) {
  for (size_t at = first + span(tree, first, end, step); at < end;) {
    if (!are_one_device(&tree->devices[first], &tree->devices[at], step)) return true;
    at += span(tree, at, end, step);
  }
  return false;
}

static void add_node(tree_t *tree, const device_t *device, place_t at) {
  walk_t *w = tree->walk;
  int32_t node =
      device->is_gpu
          ? topo_build_node(&w->b, TOPO_GPU, at.node, "", "host0/gpu%d", tree->gpus++)
          : topo_build_node(&w->b, TOPO_NIC, at.node, "", "host0/nic%d", tree->nic_nodes++);
  if (w->b.status != COLL_OK) return;
  snprintf(w->b.graph->nodes[node].model, TOPO_NAME_BYTES, "%s", device->model);
  topo_host_set_address(&w->b, &w->addresses, node, device->steps[device->count - 1]);
  topo_host_link_up(&w->b, w->host, node, narrowed(at, device->folders[device->count - 1]));
}

static void walk_step(tree_t *tree, size_t first, size_t end, int step, place_t at);

/* A bridge or root complex, or the device itself. */
static void walk_one(tree_t *tree, size_t first, size_t end, int step, place_t at) {
  walk_t *w = tree->walk;
  const device_t *device = &tree->devices[first];
  if (device->count == step + 1) {
    add_node(tree, device, at);
    return;
  }
  bool is_root = device->steps[step] == A_ROOT;
  if (!is_root) at = narrowed(at, device->folders[step]);
  if (is_root || divides(tree, first, end, step + 1)) {
    if (is_root && step == 0) at.node = node_near(w, device);
    int32_t node =
        topo_build_node(&w->b, TOPO_PCI_SWITCH, at.node, "", "host0/pci%d", tree->pcis++);
    topo_host_set_address(&w->b, &w->addresses, node,
                          is_root ? TOPO_PCI_NONE : device->steps[step]);
    topo_host_link_up(&w->b, w->host, node,
                      is_root ? (place_t){at.node, TOPO_TYPICAL_MEMORY_GBS} : at);
    at = (place_t){node, 0};
  }
  walk_step(tree, first, end, step + 1, at);
}

static void walk_step(tree_t *tree, size_t first, size_t end, int step, place_t at) {
  while (first < end && tree->walk->b.status == COLL_OK) {
    size_t count = span(tree, first, end, step);
    walk_one(tree, first, first + count, step, at);
    first += count;
  }
}

void topo_sysfs_add_pci(walk_t *w) {
  tree_t tree = {.walk = w};
  if (w->b.status == COLL_OK) {
    w->b.status = topo_sysfs_nics(w->root, &tree.nics, &tree.nic_count);
  }
  if (w->b.status != COLL_OK) return;
  find_devices(&tree);
  walk_step(&tree, 0, tree.count, 0, (place_t){w->host, 0});
  for (size_t i = 0; i < tree.count; i++) free_device(&tree.devices[i]);
  free(tree.devices);
  free(tree.nics);
}
