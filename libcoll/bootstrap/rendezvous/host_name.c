/* Rules for names of hosts. */
#include "bootstrap/rendezvous/host_name.h"

#include <ctype.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define LABEL_MAX 63

bool rendezvous_host_is_address(const char *host) {
  struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  if (getaddrinfo(host, NULL, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

bool rendezvous_host_is_localhost(const char *host) {
  static const char *const names[] = {"localhost",     "localhost.localdomain",
                                      "localhost6",    "localhost6.localdomain6",
                                      "ip6-localhost", "ip6-loopback"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcasecmp(host, names[i]) == 0) return true;
  }
  return false;
}

/* One part of a name, between dots. */
static bool is_label(const char *text, size_t length) {
  if (length == 0 || length > LABEL_MAX || text[0] == '-' || text[length - 1] == '-') return false;
  for (size_t i = 0; i < length; i++) {
    if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_') return false;
  }
  return true;
}

/* The last part of a name is no number, so that no address with a mistake is taken for a name. */
static bool is_name(const char *host) {
  size_t length = 0;
  const char *label = host;
  for (;; label += length + 1) {
    length = strcspn(label, ".");
    if (!is_label(label, length)) return false;
    bool is_last = label[length] == '\0' || label[length + 1] == '\0';
    if (is_last) return strspn(label, "0123456789") < length;
  }
}

coll_status_t rendezvous_host_check(const char *host) {
  if (is_name(host) || rendezvous_host_is_address(host)) return COLL_OK;
  /* The scope of a link-local address is an interface, which may not be there yet. */
  if (strncasecmp(host, "fe80:", 5) == 0 && strchr(host, '%') != NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "'%s' is no name and no address of a host", host);
}
