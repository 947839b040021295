/* Lists of network interfaces. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

#include "topo/interfaces.h"

static struct sockaddr_storage address_of(const char *text) {
  struct sockaddr_storage made = {0};
  struct sockaddr_in *narrow = (struct sockaddr_in *)(void *)&made;
  struct sockaddr_in6 *wide = (struct sockaddr_in6 *)(void *)&made;
  if (inet_pton(AF_INET, text, &narrow->sin_addr) == 1) {
    made.ss_family = AF_INET;
  } else {
    made.ss_family = AF_INET6;
    cr_assert_eq(inet_pton(AF_INET6, text, &wide->sin6_addr), 1, "%s", text);
  }
  return made;
}

static const struct {
  const char *list, *name, *address;
  bool allowed;
} cases[] = {
    {"", "eth0", "10.0.0.1", true},
    {"eth", "eth0", "10.0.0.1", true},
    {"eth", "ib0", "10.0.0.1", false},
    {"=eth", "eth0", "10.0.0.1", false},
    {"=eth0", "eth0", "10.0.0.1", true},
    {"=eth0,eth1", "eth10", "10.0.0.1", false},
    {"eth0,ib", "ib3", "10.0.0.1", true},
    {"^docker", "docker0", "172.17.0.1", false},
    {"^docker", "eth0", "10.0.0.1", true},
    {"^docker,veth", "veth7", "10.0.0.1", false},
    {"eth,^eth1", "eth0", "10.0.0.1", true},
    {"eth,^eth1", "eth1", "10.0.0.1", false},
    {"10.1.0.0/16", "eth0", "10.1.200.3", true},
    {"10.1.0.0/16", "eth0", "10.2.0.1", false},
    {"10.1.0.0/16", "eth0", "::ffff:10.1.0.9", true},
    {"10.0.0.0/9", "eth0", "10.127.255.255", true},
    {"10.0.0.0/9", "eth0", "10.128.0.0", false},
    {"0.0.0.0/0", "eth0", "192.168.1.1", true},
    {"0.0.0.0/0", "eth0", "fd00::1", false},
    {"fd00::/8", "eth0", "fd12::1", true},
    {"fd00::/8", "eth0", "fe80::1", false},
    {"::/0", "eth0", "fe80::1", true},
    {"^10.1.0.0/16", "eth0", "10.1.0.1", false},
    {"^10.1.0.0/16", "eth0", "10.2.0.1", true},
    {"10.1.2.3/32", "eth0", "10.1.2.3", true},
    {"10.1.2.3/32", "eth0", "10.1.2.2", false},
};

Test(interfaces, allows_what_the_list_says) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct sockaddr_storage address = address_of(cases[i].address);
    cr_assert(topo_interfaces_is_list(cases[i].list), "%s", cases[i].list);
    cr_assert_eq(topo_interfaces_allow(cases[i].list, cases[i].name,
                                       (const struct sockaddr *)(const void *)&address),
                 cases[i].allowed, "%s: %s %s", cases[i].list, cases[i].name, cases[i].address);
  }
}

Test(interfaces, knows_what_is_no_list) {
  static const char *const wrong[] = {",",           "eth0,",      "^",       "=",
                                      "10.0.0.0/33", "10.0.0/8",   "fd00::/", "fd00::/129",
                                      "eth0/4",      "10.0.0.0/x", "a,,b",    "12345678901234567"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cr_assert_not(topo_interfaces_is_list(wrong[i]), "%s", wrong[i]);
  }
}

Test(interfaces, finds_the_loopback_interface_where_the_list_asks_for_it) {
  topo_interface_t found[8];
  int count;
  cr_assert_eq(topo_interfaces_find("=lo", 8, found, &count), COLL_OK, "%s", base_last_error());
  cr_assert(count >= 1 && strcmp(found[0].name, "lo") == 0);
  cr_assert_eq(topo_interfaces_find("^eth", 8, found, &count), COLL_OK, "%s", base_last_error());
  for (int i = 0; i < count; i++) cr_assert_str_neq(found[i].name, "lo");
}

Test(interfaces, says_what_there_is_if_none_is_like_that) {
  topo_interface_t found[8];
  int count;
  cr_assert_eq(topo_interfaces_find("nosuch", 8, found, &count), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_INTERFACES=nosuch: no interface"), "%s",
                     base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "lo"), "%s", base_last_error());
  cr_assert_eq(topo_interfaces_find("a,,b", 8, found, &count), COLL_ERROR_INVALID);
}
