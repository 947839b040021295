/* Reads small files. All of them may be missing. */
#include "topo/sysfs.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/lines.h"
#include "base/text.h"

#define LINE_BYTES TOPO_SYSFS_LINE_BYTES

/* Writes a path; one that is too long is cut off, and names no file. */
static void write_path(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_path(char path[PATH_MAX], const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(path, PATH_MAX, format, list);
  va_end(list);
}

void topo_sysfs_line(const char *folder, const char *name, const char *file_name,
                     char line[TOPO_SYSFS_LINE_BYTES]) {
  char path[PATH_MAX];
  line[0] = '\0';
  write_path(path, "%s/%s/%s", folder, name, file_name);
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  if (fgets(line, LINE_BYTES, file) == NULL) line[0] = '\0';
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
}

/* The number at the beginning of a line; `fallback` if there is none. */
static double leading_number(const char *line, double fallback) {
  char *end;
  double value = strtod(line, &end);
  return end != line ? value : fallback;
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* Calls `visit` for each entry of a folder, by name. */
typedef void visit_t(void *context, const char *folder, const char *name);

static void for_each(const char *folder, visit_t *visit, void *context) {
  struct dirent **entries;
  int count = scandir(folder, &entries, is_visible, alphasort);
  for (int i = 0; i < count; i++) {
    visit(context, folder, entries[i]->d_name);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
}

/* ---- PCI addresses ------------------------------------------------------------------------- */

bool topo_sysfs_parse_address(const char *name, int64_t *address) {
  unsigned long part[4];
  static const char ends[] = "::.";
  for (int i = 0; i < 4; i++) {
    char *end;
    if (!isxdigit((unsigned char)*name)) return false;
    part[i] = strtoul(name, &end, 16);
    if (*end != ends[i]) return false;
    name = end + 1;
  }
  if (part[0] > UINT32_MAX || part[1] > 255 || part[2] > 31 || part[3] > 7) return false;
  *address =
      topo_pci_address((uint32_t)part[0], (uint32_t)part[1], (uint32_t)part[2], (uint32_t)part[3]);
  return true;
}

/* The innermost PCI function on the path of a device: a virtio device, for example, is below its
 * function. */
static int64_t address_of(const char *device) {
  char path[PATH_MAX];
  int64_t address = TOPO_PCI_NONE;
  if (realpath(device, path) == NULL) return TOPO_PCI_NONE;
  for (char *at = path, *next; at != NULL; at = next) {
    next = strchr(at, '/');
    if (next != NULL) *next++ = '\0';
    topo_sysfs_parse_address(at, &address);
  }
  return address;
}

/* ---- NICs ---------------------------------------------------------------------------------- */

typedef struct nics {
  topo_sysfs_nic_t *nics;
  size_t count, capacity;
  coll_status_t status;
} nics_t;

/* A NIC that has hardware; NULL: it has none, or there is no memory. */
static topo_sysfs_nic_t *add_nic(nics_t *found, const char *folder, const char *name) {
  char path[PATH_MAX], line[LINE_BYTES];
  write_path(path, "%s/%s/device", folder, name);
  if (access(path, F_OK) != 0 || found->status != COLL_OK) return NULL;
  found->status = base_grow((void **)&found->nics, &found->capacity, found->count + 1,
                            sizeof *found->nics, "network devices");
  if (found->status != COLL_OK) return NULL;
  topo_sysfs_nic_t *nic = &found->nics[found->count++];
  *nic = (topo_sysfs_nic_t){.address = address_of(path)};
  snprintf(nic->name, sizeof nic->name, "%.*s", TOPO_NAME_BYTES - 1, name);
  topo_sysfs_line(folder, name, "device/numa_node", line);
  nic->numa = (int32_t)leading_number(line, -1);
  return nic;
}

/* Adds an active port: its rate is given in Gb/s, as "100 Gb/sec (4X EDR)". */
static void add_port(void *context, const char *folder, const char *name) {
  topo_sysfs_nic_t *nic = context;
  char line[LINE_BYTES];
  topo_sysfs_line(folder, name, "state", line);
  if (line[0] != '\0' && strstr(line, "ACTIVE") == NULL) return;
  topo_sysfs_line(folder, name, "rate", line);
  double rate = leading_number(line, 0);
  if (rate > 0) nic->gigabytes_per_s += rate / 8;
  topo_sysfs_line(folder, name, "link_layer", line);
  if (strcmp(line, "InfiniBand") == 0) nic->is_infiniband = true;
}

static void add_rdma(void *context, const char *folder, const char *name) {
  char path[PATH_MAX];
  topo_sysfs_nic_t *nic = add_nic(context, folder, name);
  if (nic == NULL) return;
  nic->is_rdma = true;
  write_path(path, "%s/%s/ports", folder, name);
  for_each(path, add_port, nic);
}

/* Loopback, bridges and other software interfaces have no device. The speed is in Mb/s; a link that
 * is down has none, or -1. */
static void add_net(void *context, const char *folder, const char *name) {
  char line[LINE_BYTES];
  topo_sysfs_nic_t *nic = add_nic(context, folder, name);
  if (nic == NULL) return;
  topo_sysfs_line(folder, name, "speed", line);
  double speed = leading_number(line, 0);
  if (speed > 0) nic->gigabytes_per_s = speed / 8000;
}

coll_status_t topo_sysfs_nics(const char *root, topo_sysfs_nic_t **nics, size_t *count) {
  char folder[PATH_MAX];
  nics_t found = {.status = COLL_OK};
  write_path(folder, "%s/class/infiniband", root);
  for_each(folder, add_rdma, &found);
  write_path(folder, "%s/class/net", root);
  for_each(folder, add_net, &found);
  if (found.status != COLL_OK) {
    free(found.nics);
    found = (nics_t){.status = found.status};
  }
  *nics = found.nics;
  *count = found.count;
  return found.status;
}

/* ---- the digest ---------------------------------------------------------------------------- */

static void digest_name(void *context, const char *folder, const char *name) {
  uint64_t *digest = context;
  (void)folder;
  *digest = base_text_hash(base_text_hash(*digest, name), "\n");
}

static void digest_net(void *context, const char *folder, const char *name) {
  char path[PATH_MAX];
  write_path(path, "%s/%s/device", folder, name);
  if (access(path, F_OK) == 0) digest_name(context, folder, name);
}

uint64_t topo_sysfs_digest(const char *root) {
  static const struct {
    const char *folder;
    visit_t *visit;
  } lists[] = {{"class/infiniband", digest_name},
               {"class/net", digest_net},
               {"bus/pci/devices", digest_name}};
  uint64_t digest = BASE_TEXT_HASH_OF_NOTHING;
  char path[PATH_MAX];
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    write_path(path, "%s/%s", root, lists[i].folder);
    for_each(path, lists[i].visit, &digest);
    digest = base_text_hash(digest, "\n");
  }
  write_path(path, "%s/devices/system/cpu/online", root);
  char *online = base_lines_first(path);
  if (online != NULL) digest = base_text_hash(digest, online);
  free(online);
  return digest;
}
