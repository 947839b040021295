/* The list is a set of bits, one for each descriptor. */
#include "base/net/socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"

#define BITS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *open_sockets; /* bit fd % BITS of word fd / BITS; both protected by the lock */
static size_t words;

static void close_all(void) {
  for (size_t i = 0; i < words; i++) {
    for (uint64_t rest = open_sockets[i]; rest != 0; rest &= rest - 1) {
      close((int)(i * BITS) + __builtin_ctzll(rest));
    }
    open_sockets[i] = 0;
  }
}
BASE_FORK_PART(&lock, close_all);

static bool make_room(size_t word) {
  size_t more = word + 1 > 2 * words ? word + 1 : 2 * words;
  if (word < words) return true;
  uint64_t *grown = realloc(open_sockets, more * sizeof *grown);
  if (grown == NULL) return false;
  memset(grown + words, 0, (more - words) * sizeof *grown);
  open_sockets = grown;
  words = more;
  return true;
}

/* The caller holds the lock. */
static int enter(int fd) {
  if (fd < 0) return fd;
  if (!make_room((size_t)fd / BITS)) {
    close(fd);
    errno = ENOMEM;
    return -1;
  }
  open_sockets[fd / BITS] |= UINT64_C(1) << fd % BITS;
  return fd;
}

int base_socket(int domain, int type, int protocol) {
  pthread_mutex_lock(&lock);
  int fd = enter(socket(domain, type | SOCK_CLOEXEC, protocol));
  pthread_mutex_unlock(&lock);
  return fd;
}

/* accept4(2) also returns what went wrong with a connection before it was accepted. */
static bool is_of_caller(int error) {
  return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EHOSTUNREACH ||
         error == ENETUNREACH || error == EHOSTDOWN || error == ENETDOWN || error == ENONET;
}

int base_socket_accept(int listener) {
  int fd;
  do {
    pthread_mutex_lock(&lock);
    fd = enter(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    pthread_mutex_unlock(&lock);
  } while (fd < 0 && is_of_caller(errno));
  return fd;
}

void base_socket_close(int fd) {
  pthread_mutex_lock(&lock);
  if (fd >= 0 && (size_t)fd / BITS < words) {
    open_sockets[fd / BITS] &= ~(UINT64_C(1) << fd % BITS);
  }
  close(fd);
  pthread_mutex_unlock(&lock);
}
