/*
 * Names that Docker, Podman, LXC, libvirt and networks of Kubernetes give, and bridges that have no
 * device of the host as a port. In a container itself all interfaces are such ends, but with names
 * of its own (eth0), so a link of two ends (veth) counts by its name alone.
 */
#include "topo/containers.h"

#include <dirent.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "/sys/class/net/"
#define PATH_BYTES (sizeof FOLDER + 2 * IFNAMSIZ + 32)

static bool has_known_name(const char *name) {
  static const char *const beginnings[] = {"docker", "br-",     "veth",    "virbr",       "vnet",
                                           "cni",    "flannel", "cali",    "tunl",        "vxlan",
                                           "cilium", "lxc",     "lxdbr",   "podman",      "weave",
                                           "kube-",  "vmnet",   "vboxnet", "nodelocaldns"};
  for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
    if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
  }
  return false;
}

static bool is_device(const char *name) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, FOLDER "%.*s/device", IFNAMSIZ, name);
  return access(path, F_OK) == 0;
}

/* A bridge through which the host itself is connected has its network card as a port. */
static bool has_device_as_port(DIR *ports) {
  for (const struct dirent *port; (port = readdir(ports)) != NULL;) {
    if (port->d_name[0] != '.' && is_device(port->d_name)) return true;
  }
  return false;
}

static bool is_bridge_of_no_device(const char *name) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, FOLDER "%.*s/brif", IFNAMSIZ, name);
  DIR *ports = opendir(path);
  if (ports == NULL) return false;
  bool has_device = has_device_as_port(ports);
  closedir(ports);
  return !has_device;
}

bool topo_container_interface(const char *name) {
  return has_known_name(name) || is_bridge_of_no_device(name);
}
