/* Whoever has bound an abstract Unix socket of a fixed name measures. It leaves no file, and the
 * kernel frees the name when the process ends, however it does. */
#include "calibrate/exclusive.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/net/socket.h"

#define RETRY_NS 10000000u

int calibrate_exclusive_begin(uint64_t limit_ns) {
  static const char name[] = "\0libcoll-calibration";
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, name, sizeof name - 1);
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name - 1);
  uint64_t end_ns = base_clock_now_ns() + limit_ns;
  int fd = base_socket(AF_UNIX, SOCK_DGRAM, 0);
  while (fd >= 0 && bind(fd, (const struct sockaddr *)&address, bytes) != 0) {
    if (errno != EADDRINUSE || base_clock_now_ns() > end_ns) {
      base_socket_close(fd);
      return -1;
    }
    base_clock_sleep_ns(RETRY_NS);
  }
  return fd;
}
