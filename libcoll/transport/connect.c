/* All ranks choose the transport from the same names, so all choose the same. */
#include "transport/connect.h"

#include <stdlib.h>
#include <string.h>

#include "base/knob.h"
#include "base/memory.h"
#include "transport/mixed/mixed.h"
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

bool transport_share_memory(const transport_name_t *a, const transport_name_t *b) {
  return a == b || (transport_same_host(a, b) && a->shm.length > 0 && b->shm.length > 0);
}

/* ---- shared memory and TCP ------------------------------------------------------------------*/

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

/* ---- both -----------------------------------------------------------------------------------*/

/* The number of ranks that share memory with this one, itself included. number_of: their numbers
 * among themselves, in the order of ranks; -1 for others. names: theirs. */
static int find_local(const transport_group_t *group, int rank, int number_of[],
                      transport_name_t names[]) {
  int count = 0;
  for (int peer = 0; peer < group->size; peer++) {
    bool is_local = transport_share_memory(&group->names[rank], &group->names[peer]);
    number_of[peer] = is_local ? count : -1;
    if (is_local) names[count++] = group->names[peer];
  }
  return count;
}

/* What every part of every rank has room for. */
static void find_room(const transport_group_t *group, int number_of[], transport_name_t names[],
                      transport_mixed_parts_t *parts) {
  transport_tcp_room(&parts->slot_bytes, &parts->scratch_bytes);
  for (int rank = 0; rank < group->size; rank++) {
    size_t slot_bytes, scratch_bytes;
    int count = find_local(group, rank, number_of, names);
    if (count == 1) continue;
    transport_shm_room(count, &slot_bytes, &scratch_bytes);
    if (slot_bytes < parts->slot_bytes) parts->slot_bytes = slot_bytes;
    if (scratch_bytes < parts->scratch_bytes) parts->scratch_bytes = scratch_bytes;
  }
}

/* The ranks of this host, under their numbers here. */
static coll_status_t connect_local(shm_mesh_t *mesh, const transport_group_t *group,
                                   const int number_of[], const transport_name_t names[], int count,
                                   transport_t **local) {
  transport_group_t ranks = *group;
  ranks.rank = number_of[group->rank];
  ranks.size = count;
  ranks.names = names;
  ranks.one_process = false;
  *local = NULL;
  if (count > 1) return connect_shm(mesh, &ranks, local);
  shm_mesh_close(mesh);
  return COLL_OK;
}

static coll_status_t connect_parts(transport_listener_t *listener, const transport_group_t *group,
                                   int number_of[], transport_name_t names[], transport_t **t) {
  transport_t *local = NULL, *net = NULL;
  transport_mixed_parts_t parts = {.local_of = number_of};
  find_room(group, number_of, names, &parts);
  int count = find_local(group, group->rank, number_of, names);
  coll_status_t status = connect_local(&listener->mesh, group, number_of, names, count, &local);
  if (status != COLL_OK) {
    tcp_listener_close(&listener->tcp);
    return status;
  }
  status = connect_tcp(&listener->tcp, group, &net);
  if (status != COLL_OK) {
    if (local != NULL) local->ops->destroy(local);
    return status;
  }
  parts.local = local;
  parts.net = net;
  return transport_mixed_create(&parts, t);
}

static coll_status_t connect_mixed(transport_listener_t *listener, const transport_group_t *group,
                                   transport_t **t) {
  int *number_of = NULL;
  transport_name_t *names = NULL;
  size_t size = (size_t)group->size;
  coll_status_t status = base_alloc(size, sizeof *number_of, "ranks", (void **)&number_of);
  if (status == COLL_OK) {
    status = base_alloc(size, sizeof *names, "names of ranks", (void **)&names);
  }
  if (status == COLL_OK) {
    status = connect_parts(listener, group, number_of, names, t);
  } else {
    transport_listener_close(listener);
  }
  free(names);
  free(number_of);
  return status;
}

/* ---- the choice -----------------------------------------------------------------------------*/

/* The first rank that this one does not share memory with, or that cannot be reached by TCP; -1:
 * there is none. */
static int first_without_shm(const transport_group_t *group) {
  for (int peer = 0; peer < group->size; peer++) {
    if (!transport_share_memory(&group->names[group->rank], &group->names[peer])) return peer;
  }
  return -1;
}

static int first_without_tcp(const transport_group_t *group) {
  for (int peer = 0; peer < group->size; peer++) {
    if (group->names[peer].tcp.count == 0) return peer;
  }
  return -1;
}

static bool any_share_memory(const transport_group_t *group) {
  for (int rank = 0; rank < group->size; rank++) {
    for (int peer = 0; peer < rank; peer++) {
      if (transport_share_memory(&group->names[rank], &group->names[peer])) return true;
    }
  }
  return false;
}

static coll_status_t fail_unreached(const transport_group_t *group, int peer) {
  const transport_name_t *own = &group->names[group->rank], *name = &group->names[peer];
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d has no transport to rank %d: they are on %s; set COLL_TRANSPORTS to "
                   "shm,tcp on all ranks",
                   group->rank, peer,
                   transport_same_host(own, name) ? "one host" : "different hosts");
}

/* That ranks share memory is an equivalence, so every rank finds that all do, or none does. */
coll_status_t transport_connect(transport_listener_t *listener, const transport_group_t *group,
                                transport_t **t) {
  int no_shm = first_without_shm(group);
  if (no_shm < 0) {
    tcp_listener_close(&listener->tcp);
    return connect_shm(&listener->mesh, group, t);
  }
  if (first_without_tcp(group) >= 0) {
    transport_listener_close(listener);
    return fail_unreached(group, no_shm);
  }
  if (any_share_memory(group)) return connect_mixed(listener, group, t);
  shm_mesh_close(&listener->mesh);
  return connect_tcp(&listener->tcp, group, t);
}

coll_status_t transport_connect_local(int size, transport_t *ends[]) {
  bool shm, tcp;
  COLL_TRY(read_transports(&shm, &tcp));
  return shm ? transport_shm_create_local(size, ends)
             : transport_tcp_create_local(size, NULL, ends);
}
