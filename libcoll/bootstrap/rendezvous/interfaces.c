/* A rendezvous server where the user has chosen, or at all addresses of its host. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/wait_notice.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "topo/interfaces.h"

#define ADDRESSES_MAX 16
#define RETRY_NS UINT64_C(50000000)

static const base_knob_t chosen_knob = {
    .name = "COLL_INTERFACE_ADDRESS", .kind = BASE_KNOB_TEXT, .fallback = ""};

/* Those of the loopback interface alone are only asked for where no other host has ranks. */
static bool are_loopback(const topo_interface_t found[], int count) {
  for (int i = 0; i < count; i++) {
    if (!topo_address_is_loopback((const struct sockaddr *)&found[i].address)) return false;
  }
  return count > 0;
}

/* Sets list to "" if this host has no address that other hosts may reach. is_loopback: the list is
 * one address of the loopback interface. */
static coll_status_t list_addresses(const char *interfaces, char *list, size_t bytes,
                                    bool *is_loopback) {
  topo_interface_t found[ADDRESSES_MAX];
  char text[INET6_ADDRSTRLEN];
  int count;
  list[0] = '\0';
  COLL_TRY(topo_interfaces_find(interfaces, ADDRESSES_MAX, found, &count));
  *is_loopback = are_loopback(found, count);
  if (*is_loopback) count = 1;
  for (int i = 0; i < count; i++) {
    size_t length = strlen(list);
    topo_interface_text(&found[i], text);
    if (length + strlen(text) + 2 > bytes) continue;
    snprintf(list + length, bytes - length, "%s%s", length > 0 ? "," : "", text);
  }
  return COLL_OK;
}

coll_status_t rendezvous_await_addresses(const char *who, const char *interfaces,
                                         uint64_t deadline_ns) {
  char list[RENDEZVOUS_HOST_BYTES], name[IFNAMSIZ];
  base_wait_notice_t notice = base_wait_notice_begin();
  bool is_loopback;
  for (;;) {
    coll_status_t status = list_addresses(interfaces, list, sizeof list, &is_loopback);
    bool has_any = status == COLL_OK && list[0] != '\0';
    if (has_any || !topo_interfaces_are_awaited(interfaces, name)) return status;
    if (base_clock_now_ns() + RETRY_NS >= deadline_ns || base_cancel_is_requested()) return status;
    base_wait_notice(&notice, "%s waits for an address of this host: its interface %s has none yet",
                     who, name);
    base_clock_sleep_ns(RETRY_NS);
  }
}

static coll_status_t start_at(const char *host, rendezvous_address_t *address) {
  snprintf(address->host, sizeof address->host, "%s", host);
  return rendezvous_server_start(address);
}

static coll_status_t start_everywhere(const char *interfaces, uint64_t deadline_ns,
                                      rendezvous_address_t *address) {
  char list[RENDEZVOUS_HOST_BYTES];
  bool is_loopback;
  COLL_TRY(rendezvous_await_addresses("rank 0's rendezvous server", interfaces, deadline_ns));
  COLL_TRY(list_addresses(interfaces, list, sizeof list, &is_loopback));
  if (list[0] == '\0') return start_at("127.0.0.1", address);
  if (is_loopback) return start_at(list, address);
  coll_status_t status = start_at("", address);
  /* Without libsodium all ranks are of this host. */
  if (status == COLL_ERROR_UNSUPPORTED) return start_at("127.0.0.1", address);
  if (status == COLL_OK) memcpy(address->host, list, sizeof list);
  return status;
}

coll_status_t rendezvous_address_choose(rendezvous_address_t *address) {
  const char *chosen;
  COLL_TRY(base_knob_text(&chosen_knob, &chosen));
  if (strlen(chosen) >= sizeof address->host) {
    return base_fail(COLL_ERROR_INVALID, "COLL_INTERFACE_ADDRESS=%s is too long", chosen);
  }
  if (chosen[0] != '\0') memcpy(address->host, chosen, strlen(chosen) + 1);
  return COLL_OK;
}

coll_status_t rendezvous_server_start_own(const char *otherwise, const char *interfaces,
                                          uint64_t deadline_ns, rendezvous_address_t *address) {
  snprintf(address->host, sizeof address->host, "%s", otherwise);
  COLL_TRY(rendezvous_address_choose(address));
  return address->host[0] != '\0' ? rendezvous_server_start(address)
                                  : start_everywhere(interfaces, deadline_ns, address);
}
