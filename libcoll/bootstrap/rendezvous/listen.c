/* The thread of a rendezvous server. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/net/socket.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/server.h"

static void *serve(void *argument) {
  rendezvous_server_t *server = argument;
  rendezvous_server_run(server);
  rendezvous_server_destroy(server);
  return NULL;
}

static coll_status_t start_thread(rendezvous_server_t *server) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &detached, serve, server);
  pthread_attr_destroy(&detached);
  if (error == 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "cannot start the rendezvous server's thread: %s",
                   strerror(error));
}

coll_status_t rendezvous_server_start(rendezvous_address_t *address) {
  rendezvous_server_t *server = NULL;
  int listener = -1;
  uint16_t port;
  COLL_TRY(rendezvous_listen(address, &listener, &port));
  coll_status_t status = rendezvous_server_create(listener, address, address->port == 0, &server);
  if (status != COLL_OK) {
    base_socket_close(listener);
    return status;
  }
  status = start_thread(server);
  if (status != COLL_OK) {
    rendezvous_server_destroy(server);
    return status;
  }
  address->port = port;
  address->pid = (int32_t)getpid();
  address->process = bootstrap_process_own();
  return COLL_OK;
}
