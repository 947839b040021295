/* Identifies the host by its boot id: host names repeat, and machine ids are cloned with disk
 * images. */
#include "topo/host.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define BOOT_ID_BYTES 64
#define NAMESPACE_BYTES 48

static bool read_boot_id(char id[BOOT_ID_BYTES]) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == NULL) return false;
  bool got = fgets(id, BOOT_ID_BYTES, file) != NULL;
  fclose(file);
  if (got) id[strcspn(id, "\n")] = '\0';
  return got && id[0] != '\0';
}

static bool read_network_namespace(char name[NAMESPACE_BYTES]) {
  ssize_t length = readlink("/proc/self/ns/net", name, NAMESPACE_BYTES - 1);
  if (length <= 0) return false;
  name[length] = '\0';
  return true;
}

coll_status_t topo_host_identity(char text[TOPO_HOST_BYTES]) {
  char boot[BOOT_ID_BYTES], network[NAMESPACE_BYTES];
  if (read_boot_id(boot) && read_network_namespace(network)) {
    snprintf(text, TOPO_HOST_BYTES, "%s %s", boot, network);
    return COLL_OK;
  }
  char name[TOPO_HOST_BYTES];
  if (gethostname(name, sizeof name) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read this host's name");
  }
  name[sizeof name - 1] = '\0';
  memcpy(text, name, sizeof name);
  return COLL_OK;
}

uint64_t topo_host_kernel(void) {
  char boot[BOOT_ID_BYTES];
  return read_boot_id(boot) ? base_text_hash(BASE_TEXT_HASH_OF_NOTHING, boot) : 0;
}
