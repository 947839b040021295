/*
 * Freed segments are detected at the next export; the rank then sends its peers SHM_NOTE_REVOKE and
 * they unmap the segment. A rank reads these notes when it exports a segment itself or needs one
 * that it has not mapped, so a program that allocates and frees in a loop keeps mapped only what is
 * alive.
 */
#include "transport/shm/buffers.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/shm/memory.h"

static shm_import_t *find_import(shm_buffers_t *buffers, int peer, uint64_t id) {
  for (size_t i = 0; i < buffers->import_count; i++) {
    if (buffers->imports[i].peer == peer && buffers->imports[i].id == id)
      return &buffers->imports[i];
  }
  return NULL;
}

/* Takes over fd. An export that did not reach every peer is sent to all again, so it may be a
 * duplicate. */
static coll_status_t add_import(shm_buffers_t *buffers, int peer, const shm_note_t *note, int fd) {
  shm_segment_t *segment;
  if (find_import(buffers, peer, note->segment) != NULL) {
    close(fd);
    return COLL_OK;
  }
  COLL_TRY(shm_segment_open(fd, note->bytes, "a peer's buffer", &segment));
  coll_status_t status =
      base_grow((void **)&buffers->imports, &buffers->import_capacity, buffers->import_count + 1,
                sizeof *buffers->imports, "mapped buffers of peers");
  if (status != COLL_OK) {
    shm_segment_release(segment);
    return status;
  }
  shm_segment_populate(segment);
  /* The mapping keeps the memory alive; the descriptor is no longer needed. */
  close(segment->fd);
  segment->fd = -1;
  buffers->imports[buffers->import_count++] =
      (shm_import_t){.peer = peer, .id = note->segment, .segment = segment};
  return COLL_OK;
}

static void drop_import(shm_buffers_t *buffers, int peer, uint64_t id) {
  shm_import_t *found = find_import(buffers, peer, id);
  if (found == NULL) return;
  shm_segment_release(found->segment);
  *found = buffers->imports[--buffers->import_count];
}

coll_status_t shm_buffers_read_notes(shm_buffers_t *buffers, shm_mesh_t *mesh) {
  for (;;) {
    shm_note_t note;
    int fd;
    bool got;
    COLL_TRY(shm_mesh_recv(mesh, &note, &fd, &got));
    if (!got) return COLL_OK;
    if (note.kind == SHM_NOTE_EXPORT && fd >= 0) {
      COLL_TRY(add_import(buffers, note.source, &note, fd));
    } else if (note.kind == SHM_NOTE_REVOKE) {
      drop_import(buffers, note.source, note.segment);
    } else if (note.kind == SHM_NOTE_PASS) {
      COLL_TRY(shm_passes_keep(&buffers->passes, note.source, note.segment, fd));
    } else if (fd >= 0) {
      close(fd);
    }
  }
}

static coll_status_t send_all(const shm_mesh_t *mesh, const shm_note_t *note, int fd, bool *sent) {
  *sent = true;
  for (int peer = 0; peer < mesh->size; peer++) {
    bool this_sent = true;
    if (peer != mesh->rank) COLL_TRY(shm_mesh_send(mesh, peer, note, fd, &this_sent));
    *sent = *sent && this_sent;
  }
  return COLL_OK;
}

/* A revocation for which a peer has no room is sent at the next export. */
static coll_status_t revoke_freed(shm_buffers_t *buffers, const shm_mesh_t *mesh) {
  for (size_t i = 0; i < buffers->export_count;) {
    bool sent = false;
    if (!shm_memory_exists(buffers->exports[i])) {
      shm_note_t note = {.kind = SHM_NOTE_REVOKE, .segment = buffers->exports[i]};
      COLL_TRY(send_all(mesh, &note, -1, &sent));
    }
    if (sent) {
      buffers->exports[i] = buffers->exports[--buffers->export_count];
    } else {
      i++;
    }
  }
  return COLL_OK;
}

static bool exported(const shm_buffers_t *buffers, uint64_t id) {
  for (size_t i = 0; i < buffers->export_count; i++) {
    if (buffers->exports[i] == id) return true;
  }
  return false;
}

static coll_status_t export_segment(shm_buffers_t *buffers, shm_mesh_t *mesh, const void *ptr,
                                    size_t bytes, bool *is_exported) {
  shm_memory_region_t region;
  *is_exported = false;
  COLL_TRY(revoke_freed(buffers, mesh));
  COLL_TRY(shm_buffers_read_notes(buffers, mesh));
  COLL_TRY(base_grow((void **)&buffers->exports, &buffers->export_capacity,
                     buffers->export_count + 1, sizeof *buffers->exports, "exported buffers"));
  if (!shm_memory_find(ptr, bytes, true, &region)) return COLL_OK;
  shm_note_t note = {
      .kind = SHM_NOTE_EXPORT, .segment = region.segment, .bytes = region.segment_bytes};
  coll_status_t status = send_all(mesh, &note, region.fd, is_exported);
  close(region.fd);
  if (*is_exported) buffers->exports[buffers->export_count++] = region.segment;
  return status;
}

static bool find_recent(shm_buffers_t *buffers, const void *ptr, size_t bytes,
                        transport_address_t *address) {
  uint64_t freed = shm_memory_freed();
  if (buffers->recent_freed_count != freed) buffers->recent_count = 0;
  buffers->recent_freed_count = freed;
  for (size_t i = 0; i < SHM_RECENT && i < buffers->recent_count; i++) {
    const shm_export_t *each = &buffers->recent[i];
    size_t offset = (uintptr_t)ptr - each->base;
    if (offset > each->bytes || bytes > each->bytes - offset) continue;
    *address = (transport_address_t){.segment = each->id, .offset = offset};
    return true;
  }
  return false;
}

/* Replaces the oldest entry. */
static void add_recent(shm_buffers_t *buffers, const shm_memory_region_t *region) {
  buffers->recent[buffers->recent_count++ % SHM_RECENT] =
      (shm_export_t){(uintptr_t)region->segment_base, region->segment_bytes, region->segment};
}

coll_status_t shm_buffers_export(shm_buffers_t *buffers, shm_mesh_t *mesh, const void *ptr,
                                 size_t bytes, transport_address_t *address) {
  shm_memory_region_t region;
  if (find_recent(buffers, ptr, bytes, address)) return COLL_OK;
  *address = (transport_address_t){0};
  if (mesh->size > SHM_EXPORT_RANKS_MAX) return COLL_OK;
  if (!shm_memory_find(ptr, bytes, false, &region)) return COLL_OK;
  if (!exported(buffers, region.segment)) {
    bool is_exported;
    COLL_TRY(export_segment(buffers, mesh, ptr, bytes, &is_exported));
    if (!is_exported) return COLL_OK;
  }
  add_recent(buffers, &region);
  *address = (transport_address_t){.segment = region.segment, .offset = region.offset};
  return COLL_OK;
}

coll_status_t shm_buffers_import(shm_buffers_t *buffers, shm_mesh_t *mesh, int peer,
                                 const transport_address_t *address, void **ptr) {
  shm_import_t *found = find_import(buffers, peer, address->segment);
  if (found == NULL) {
    COLL_TRY(shm_buffers_read_notes(buffers, mesh));
    found = find_import(buffers, peer, address->segment);
  }
  *ptr = NULL;
  if (found != NULL && address->offset <= found->segment->bytes) {
    *ptr = (char *)found->segment->base + address->offset;
  }
  return COLL_OK;
}

void shm_buffers_close(shm_buffers_t *buffers) {
  for (size_t i = 0; i < buffers->import_count; i++) {
    shm_segment_release(buffers->imports[i].segment);
  }
  shm_passes_close(&buffers->passes);
  free(buffers->imports);
  free(buffers->exports);
  *buffers = (shm_buffers_t){0};
}
