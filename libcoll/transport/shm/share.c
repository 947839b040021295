/*
 * Freed segments are noticed when the next one is offered: peers are told to unmap them. They read
 * such notes when they offer one themselves, or look for one that they have not mapped, so that a
 * program which allocates and frees in a loop holds only what is alive.
 */
#include "transport/shm/share.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "transport/shm/memory.h"

static shm_import_t *find_import(shm_share_t *share, int peer, uint64_t id) {
  for (size_t i = 0; i < share->import_count; i++) {
    if (share->imports[i].peer == peer && share->imports[i].id == id) return &share->imports[i];
  }
  return NULL;
}

/* Takes over fd. An offer that did not reach every peer is made to all again. */
static coll_status_t add_import(shm_share_t *share, int peer, const shm_note_t *note, int fd) {
  shm_segment_t *segment;
  if (find_import(share, peer, note->segment) != NULL) {
    close(fd);
    return COLL_OK;
  }
  COLL_TRY(shm_segment_open(fd, note->bytes, "a peer's buffer", &segment));
  coll_status_t status =
      base_grow((void **)&share->imports, &share->import_capacity, share->import_count + 1,
                sizeof *share->imports, "mapped buffers of peers");
  if (status != COLL_OK) {
    shm_segment_release(segment);
    return status;
  }
  shm_segment_populate(segment);
  /* The mapping keeps the memory; the descriptor is not needed any more. */
  close(segment->fd);
  segment->fd = -1;
  share->imports[share->import_count++] =
      (shm_import_t){.peer = peer, .id = note->segment, .segment = segment};
  return COLL_OK;
}

static void drop_import(shm_share_t *share, int peer, uint64_t id) {
  shm_import_t *found = find_import(share, peer, id);
  if (found == NULL) return;
  shm_segment_release(found->segment);
  *found = share->imports[--share->import_count];
}

/* Everything the peer has sent so far. */
static coll_status_t read_notes(shm_share_t *share, shm_mesh_t *mesh, int peer) {
  for (;;) {
    shm_note_t note;
    int fd;
    bool got;
    COLL_TRY(shm_mesh_recv(mesh, peer, 0, &note, &fd, &got));
    if (!got) return COLL_OK;
    if (note.kind == SHM_NOTE_EXPORT && fd >= 0) {
      COLL_TRY(add_import(share, peer, &note, fd));
    } else if (note.kind == SHM_NOTE_REVOKE) {
      drop_import(share, peer, note.segment);
    } else if (fd >= 0) {
      close(fd);
    }
  }
}

static coll_status_t send_all(shm_mesh_t *mesh, const shm_note_t *note, int fd, bool *sent) {
  *sent = true;
  for (int peer = 0; peer < mesh->size; peer++) {
    bool this_sent = true;
    if (peer != mesh->rank) COLL_TRY(shm_mesh_send(mesh, peer, note, fd, &this_sent));
    *sent = *sent && this_sent;
  }
  return COLL_OK;
}

/* A revocation that does not fit into a peer's socket is kept for the next export. */
static coll_status_t revoke_freed(shm_share_t *share, shm_mesh_t *mesh) {
  for (size_t i = 0; i < share->export_count;) {
    bool sent = false;
    if (!shm_memory_exists(share->exports[i])) {
      shm_note_t note = {.kind = SHM_NOTE_REVOKE, .segment = share->exports[i]};
      COLL_TRY(send_all(mesh, &note, -1, &sent));
    }
    if (sent) {
      share->exports[i] = share->exports[--share->export_count];
    } else {
      i++;
    }
  }
  return COLL_OK;
}

static bool exported(const shm_share_t *share, uint64_t id) {
  for (size_t i = 0; i < share->export_count; i++) {
    if (share->exports[i] == id) return true;
  }
  return false;
}

static coll_status_t offer(shm_share_t *share, shm_mesh_t *mesh, const void *ptr, size_t bytes,
                           bool *offered) {
  shm_memory_place_t place;
  *offered = false;
  COLL_TRY(revoke_freed(share, mesh));
  for (int peer = 0; peer < mesh->size; peer++) {
    if (peer != mesh->rank) COLL_TRY(read_notes(share, mesh, peer));
  }
  COLL_TRY(base_grow((void **)&share->exports, &share->export_capacity, share->export_count + 1,
                     sizeof *share->exports, "offered buffers"));
  if (!shm_memory_find(ptr, bytes, true, &place)) return COLL_OK;
  shm_note_t note = {
      .kind = SHM_NOTE_EXPORT, .segment = place.segment, .bytes = place.segment_bytes};
  coll_status_t status = send_all(mesh, &note, place.fd, offered);
  close(place.fd);
  if (*offered) share->exports[share->export_count++] = place.segment;
  return status;
}

static bool find_recent(shm_share_t *share, const void *ptr, size_t bytes,
                        transport_address_t *address) {
  uint64_t freed = shm_memory_freed();
  if (share->recent_freed != freed) share->recent_kept = 0;
  share->recent_freed = freed;
  for (size_t i = 0; i < SHM_RECENT && i < share->recent_kept; i++) {
    const shm_stretch_t *each = &share->recent[i];
    size_t offset = (uintptr_t)ptr - each->base;
    if (offset > each->bytes || bytes > each->bytes - offset) continue;
    *address = (transport_address_t){.segment = each->id, .offset = offset};
    return true;
  }
  return false;
}

/* In place of the one that came longest ago. */
static void keep_recent(shm_share_t *share, const shm_memory_place_t *place) {
  share->recent[share->recent_kept++ % SHM_RECENT] =
      (shm_stretch_t){(uintptr_t)place->segment_base, place->segment_bytes, place->segment};
}

coll_status_t shm_share_export(shm_share_t *share, shm_mesh_t *mesh, const void *ptr, size_t bytes,
                               transport_address_t *address) {
  shm_memory_place_t place;
  if (find_recent(share, ptr, bytes, address)) return COLL_OK;
  *address = (transport_address_t){0};
  if (!shm_memory_find(ptr, bytes, false, &place)) return COLL_OK;
  if (!exported(share, place.segment)) {
    bool offered;
    COLL_TRY(offer(share, mesh, ptr, bytes, &offered));
    if (!offered) return COLL_OK;
  }
  keep_recent(share, &place);
  *address = (transport_address_t){.segment = place.segment, .offset = place.offset};
  return COLL_OK;
}

coll_status_t shm_share_import(shm_share_t *share, shm_mesh_t *mesh, int peer,
                               const transport_address_t *address, void **ptr) {
  shm_import_t *found = find_import(share, peer, address->segment);
  if (found == NULL) {
    COLL_TRY(read_notes(share, mesh, peer));
    found = find_import(share, peer, address->segment);
  }
  *ptr = NULL;
  if (found != NULL && address->offset <= found->segment->bytes) {
    *ptr = (char *)found->segment->base + address->offset;
  }
  return COLL_OK;
}

void shm_share_close(shm_share_t *share) {
  for (size_t i = 0; i < share->import_count; i++) {
    shm_segment_release(share->imports[i].segment);
  }
  free(share->imports);
  free(share->exports);
  *share = (shm_share_t){0};
}
