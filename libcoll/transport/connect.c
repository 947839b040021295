/* All ranks choose the transport from the same names, so all choose the same. */
#include "transport/connect.h"

#include <stdlib.h>
#include <string.h>

#include "base/knob.h"
#include "base/memory.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

static const base_knob_t knobs[] = {
    {.name = "COLL_TRANSPORTS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "shm,tcp",
     .help = "the transports that may be used, separated by commas: shm (shared memory, between "
             "ranks of one host), tcp"},
    {.name = "COLL_HOST_ID",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "the host that this rank is on, in place of the system's identity: ranks with the "
             "same text share memory"}};

enum { KNOB_TRANSPORTS, KNOB_HOST_ID, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *transport_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

static coll_status_t read_transports(bool *shm, bool *tcp) {
  const char *text = base_knob_text(&knobs[KNOB_TRANSPORTS]);
  *shm = *tcp = false;
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, ",");
    if (length == 3 && strncmp(at, "shm", 3) == 0) {
      *shm = true;
    } else if (length == 3 && strncmp(at, "tcp", 3) == 0) {
      *tcp = true;
    } else {
      break;
    }
    at += length;
    if (*at == '\0') return COLL_OK;
    at++;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "COLL_TRANSPORTS is \"%s\": give shm, tcp or both, separated by commas", text);
}

static coll_status_t read_host(char host[TOPO_HOST_BYTES]) {
  const char *text = base_knob_text(&knobs[KNOB_HOST_ID]);
  if (text[0] == '\0') return topo_host_identity(host);
  if (strlen(text) >= TOPO_HOST_BYTES) {
    return base_fail(COLL_ERROR_INVALID, "COLL_HOST_ID has %zu characters: give at most %d",
                     strlen(text), TOPO_HOST_BYTES - 1);
  }
  memcpy(host, text, strlen(text) + 1);
  return COLL_OK;
}

/* ---- listening ------------------------------------------------------------------------------*/

transport_listener_t transport_listener_none(void) {
  return (transport_listener_t){.mesh = {.listener = -1}, .tcp = {.fd = -1}};
}

coll_status_t transport_listen(transport_listener_t *listener, transport_name_t *name) {
  bool shm, tcp;
  memset(name, 0, sizeof *name);
  *listener = transport_listener_none();
  COLL_TRY(read_transports(&shm, &tcp));
  COLL_TRY(read_host(name->host));
  if (shm) COLL_TRY(shm_mesh_listen(&listener->mesh, &name->shm));
  coll_status_t status = tcp ? tcp_listen(&listener->tcp, &name->tcp) : COLL_OK;
  if (status != COLL_OK) transport_listener_close(listener);
  return status;
}

void transport_listener_close(transport_listener_t *listener) {
  shm_mesh_close(&listener->mesh);
  tcp_listener_close(&listener->tcp);
  *listener = transport_listener_none();
}

bool transport_same_host(const transport_name_t *a, const transport_name_t *b) {
  return strncmp(a->host, b->host, sizeof a->host) == 0;
}

/* ---- connecting -----------------------------------------------------------------------------*/

static coll_status_t connect_shm(shm_mesh_t *mesh, const transport_group_t *group,
                                 transport_t **t) {
  shm_mesh_name_t *names = NULL;
  coll_status_t status =
      base_alloc((size_t)group->size, sizeof *names, "names of ranks", (void **)&names);
  for (int peer = 0; status == COLL_OK && peer < group->size; peer++) {
    names[peer] = group->names[peer].shm;
  }
  mesh->watch = group->watch;
  if (status == COLL_OK) {
    status =
        shm_mesh_connect(mesh, group->rank, group->size, names, group->session, group->deadline_ns);
  }
  free(names);
  if (status != COLL_OK) {
    shm_mesh_close(mesh);
    return status;
  }
  return transport_shm_create(mesh, group->one_process, group->deadline_ns, t);
}

static coll_status_t connect_tcp(tcp_listener_t *listener, const transport_group_t *group,
                                 transport_t **t) {
  tcp_name_t *names = NULL;
  coll_status_t status =
      base_alloc((size_t)group->size, sizeof *names, "names of ranks", (void **)&names);
  if (status != COLL_OK) {
    tcp_listener_close(listener);
    return status;
  }
  for (int peer = 0; peer < group->size; peer++) names[peer] = group->names[peer].tcp;
  const tcp_group_t ranks = {.rank = group->rank,
                             .size = group->size,
                             .names = names,
                             .session = group->session,
                             .deadline_ns = group->deadline_ns,
                             .watch = group->watch};
  status = transport_tcp_create(listener, &ranks, t);
  free(names);
  return status;
}

/* The first rank that this one cannot reach by shared memory, or by TCP; -1: it reaches all. */
static int first_without_shm(const transport_group_t *group) {
  const transport_name_t *own = &group->names[group->rank];
  for (int peer = 0; peer < group->size; peer++) {
    const transport_name_t *name = &group->names[peer];
    bool reached = transport_same_host(own, name) && own->shm.length > 0 && name->shm.length > 0;
    if (!reached) return peer;
  }
  return -1;
}

static int first_without_tcp(const transport_group_t *group) {
  if (group->names[group->rank].tcp.count == 0) return group->rank == 0 ? 1 : 0;
  for (int peer = 0; peer < group->size; peer++) {
    if (group->names[peer].tcp.count == 0) return peer;
  }
  return -1;
}

/* Every rank finds that all reach all by shared memory, or none does: it takes equal hosts. */
coll_status_t transport_connect(transport_listener_t *listener, const transport_group_t *group,
                                transport_t **t) {
  int no_shm = first_without_shm(group), no_tcp = first_without_tcp(group);
  if (group->size == 1 || no_shm < 0) {
    tcp_listener_close(&listener->tcp);
    return connect_shm(&listener->mesh, group, t);
  }
  shm_mesh_close(&listener->mesh);
  if (no_tcp < 0) return connect_tcp(&listener->tcp, group, t);
  tcp_listener_close(&listener->tcp);
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d has no transport to rank %d: they are on %s; set COLL_TRANSPORTS to "
                   "shm,tcp on all ranks",
                   group->rank, no_shm,
                   transport_same_host(&group->names[group->rank], &group->names[no_shm])
                       ? "one host"
                       : "different hosts");
}

coll_status_t transport_connect_local(int size, transport_t *ends[]) {
  bool shm, tcp;
  COLL_TRY(read_transports(&shm, &tcp));
  return shm ? transport_shm_create_local(size, ends) : transport_tcp_create_local(size, ends);
}
