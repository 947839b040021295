/* Registered memory to send from. It grows with what is in flight, so that a message is on its way
 * even if its sender makes no calls for a while. */
#include <errno.h>
#include <sys/mman.h>

#include "transport/net/wire/verbs/state.h"

/* Of each kind: the longest payload, and how many are made at once. */
static const struct {
  size_t payload_bytes;
  int count;
} kinds[VERBS_BUFFER_KINDS] = {{512, 64}, {4096, 32}, {WIRE_SLOT_BYTES, 8}};

static size_t stride_of(int kind) {
  size_t bytes = sizeof(verbs_buffer_t) + sizeof(net_frame_t) + kinds[kind].payload_bytes;
  return (bytes + 63) / 64 * 64;
}

static int kind_of(size_t payload_bytes) {
  int kind = 0;
  while (kinds[kind].payload_bytes < payload_bytes) kind++;
  return kind;
}

/* False, with errno set: there is no more memory, or none may be registered. */
static bool add_chunk(verbs_t *verbs, int kind) {
  size_t stride = stride_of(kind), bytes = stride * (size_t)kinds[kind].count;
  verbs_chunk_t *chunk = &verbs->chunks[verbs->chunk_count];
  errno = ENOMEM;
  if (verbs->chunk_count == VERBS_CHUNKS) return false;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  struct ibv_mr *mr =
      (verbs->lib->ibv_reg_mr)(verbs->rails[0].pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (mr == NULL) {
    int reason = errno;
    munmap(memory, bytes);
    errno = reason;
    return false;
  }
  *chunk = (verbs_chunk_t){.memory = memory, .bytes = bytes, .mr = mr, .kind = kind};
  verbs->chunk_count++;
  for (size_t at = 0; at < bytes; at += stride) {
    verbs_buffer_t *buffer = (void *)(memory + at);
    *buffer = (verbs_buffer_t){.lkey = mr->lkey, .kind = kind};
    verbs_buffer_free(verbs, buffer);
  }
  return true;
}

static bool has_chunk(const verbs_t *verbs, int kind) {
  int i = 0;
  while (i < verbs->chunk_count && verbs->chunks[i].kind != kind) i++;
  return i < verbs->chunk_count;
}

coll_status_t verbs_buffer_take(verbs_t *verbs, size_t payload_bytes, verbs_buffer_t **buffer) {
  int kind = kind_of(payload_bytes);
  *buffer = NULL;
  if (verbs->free_buffers[kind] == NULL && !add_chunk(verbs, kind)) {
    if (has_chunk(verbs, kind)) return COLL_OK;
    return base_fail_errno(COLL_ERROR_SYSTEM,
                           "rank %d: RDMA device %s registers no memory to send from (see "
                           "ulimit -l)",
                           verbs->wire.rank, verbs->rails[0].device.name);
  }
  *buffer = verbs->free_buffers[kind];
  verbs->free_buffers[kind] = (*buffer)->next;
  return COLL_OK;
}

void verbs_buffer_free(verbs_t *verbs, verbs_buffer_t *buffer) {
  buffer->next = verbs->free_buffers[buffer->kind];
  verbs->free_buffers[buffer->kind] = buffer;
}

void verbs_buffers_destroy(verbs_t *verbs) {
  for (int i = 0; i < verbs->chunk_count; i++) {
    verbs->lib->ibv_dereg_mr(verbs->chunks[i].mr);
    munmap(verbs->chunks[i].memory, verbs->chunks[i].bytes);
  }
}
