/*
 * Servers listen on the loopback interface, on a port that the kernel chooses.
 */
#include "rendezvous_scenario.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

rendezvous_scenario_t rendezvous_scenario(int size) {
  rendezvous_scenario_t scenario = {.timeout_ms = 5000, .late = -1, .dies = -1};
  snprintf(scenario.address.host, sizeof scenario.address.host, "127.0.0.1");
  scenario.address.key = RENDEZVOUS_KEY;
  for (int i = 0; i < size; i++) {
    scenario.ranks[i] = i;
    scenario.sizes[i] = size;
  }
  return scenario;
}

int rendezvous_dial(const rendezvous_address_t *address) {
  struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = htons(address->port)};
  inet_pton(AF_INET, address->host, &target.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&target, sizeof target) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}
