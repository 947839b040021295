/* Persistent trees of nodes, which are allocated in slabs and reused by reference count. */
#include "verify/clocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define LANES ((size_t)1 << VERIFY_CLOCK_LANES_LOG) /* of a leaf */
#define PARTS ((size_t)1 << VERIFY_CLOCK_PARTS_LOG) /* of an inner node */
#define SLAB_NODES_MAX 4096

/* ---- nodes ---- */

void verify_clocks_init(size_t width, bool are_kept, verify_clocks_t *clocks) {
  *clocks = (verify_clocks_t){.are_kept = are_kept};
  size_t nodes = (width + LANES - 1) / LANES;
  clocks->nodes_most = nodes;
  while (nodes > 1) {
    nodes = (nodes + PARTS - 1) / PARTS;
    clocks->nodes_most += nodes;
    clocks->height++;
  }
}

void verify_clocks_free(verify_clocks_t *clocks) {
  for (size_t i = 0; i < clocks->slab_count; i++) free(clocks->slabs[i]);
  free(clocks->slabs);
}

static void put_unused(verify_clocks_t *clocks, verify_clock_t *node) {
  node->parts[0] = clocks->unused;
  clocks->unused = node;
  clocks->unused_count++;
}

/* Ensures that `count` nodes can be taken. */
static coll_status_t reserve(verify_clocks_t *clocks, size_t count) {
  if (clocks->unused_count >= count) return COLL_OK;
  size_t more = clocks->node_count < SLAB_NODES_MAX ? clocks->node_count : SLAB_NODES_MAX;
  if (more < count) more = count;
  verify_clock_t *slab = NULL;
  COLL_TRY(base_grow((void **)&clocks->slabs, &clocks->slab_capacity, clocks->slab_count + 1,
                     sizeof(verify_clock_t *), "vector clocks"));
  COLL_TRY(base_alloc(more, sizeof *slab, "vector clocks", (void **)&slab));
  clocks->slabs[clocks->slab_count++] = slab;
  clocks->node_count += more;
  for (size_t i = more; i > 0; i--) put_unused(clocks, &slab[i - 1]);
  return COLL_OK;
}

/* A node without references and with undefined contents. reserve() has provided for it. */
static verify_clock_t *take(verify_clocks_t *clocks, uint32_t height) {
  verify_clock_t *node = clocks->unused;
  clocks->unused = node->parts[0];
  clocks->unused_count--;
  node->references = 0;
  node->height = height;
  return node;
}

static void hold_parts(verify_clock_t *node) {
  for (size_t i = 0; node->height > 0 && i < PARTS; i++) {
    if (node->parts[i] != NULL) node->parts[i]->references++;
  }
}

static void release_node(verify_clocks_t *clocks, verify_clock_t *node) {
  if (node == NULL || --node->references > 0) return;
  for (size_t i = 0; node->height > 0 && i < PARTS; i++) release_node(clocks, node->parts[i]);
  put_unused(clocks, node);
}

/* ---- changes ---- */

/* Gives *slot a node of its own before a change (copy on write). */
static verify_clock_t *unshare(verify_clocks_t *clocks, verify_clock_t **slot, uint32_t height) {
  verify_clock_t *old = *slot;
  if (old != NULL && old->references == 1) return old;
  verify_clock_t *copy = take(clocks, height);
  if (old != NULL) {
    memcpy(copy, old, sizeof *copy);
    hold_parts(copy);
    old->references--;
  } else {
    memset(copy, 0, sizeof *copy);
    copy->height = height;
  }
  copy->references = 1;
  *slot = copy;
  return copy;
}

static void set_count(verify_clocks_t *clocks, verify_clock_t **root, verify_epoch_t epoch) {
  verify_clock_t **slot = root;
  for (uint32_t height = clocks->height; height > 0; height--) {
    uint32_t shift = VERIFY_CLOCK_LANES_LOG + VERIFY_CLOCK_PARTS_LOG * (height - 1);
    slot = &unshare(clocks, slot, height)->parts[(epoch.lane >> shift) % PARTS];
  }
  unshare(clocks, slot, 0)->counts[epoch.lane % LANES] = epoch.count;
}

static verify_clock_t *join_leaves(verify_clocks_t *clocks, verify_clock_t *a, verify_clock_t *b) {
  uint32_t a_is_behind = 0, b_is_behind = 0;
  for (size_t i = 0; i < LANES; i++) {
    a_is_behind |= a->counts[i] < b->counts[i];
    b_is_behind |= b->counts[i] < a->counts[i];
  }
  if (!a_is_behind) return a;
  if (!b_is_behind) return b;
  verify_clock_t *joined = take(clocks, 0);
  for (size_t i = 0; i < LANES; i++) {
    joined->counts[i] = a->counts[i] > b->counts[i] ? a->counts[i] : b->counts[i];
  }
  return joined;
}

/* The clock with the greater of each two counts: `a` or `b` itself where it covers the other, else
 * a node without references whose parts are shared with them where possible. reserve(nodes_most)
 * provides for it. */
static verify_clock_t *join(verify_clocks_t *clocks, verify_clock_t *a, verify_clock_t *b) {
  if (a == b || b == NULL) return a;
  if (a == NULL) return b;
  if (a->height == 0) return join_leaves(clocks, a, b);
  verify_clock_t *parts[PARTS];
  bool is_a = true, is_b = true;
  for (size_t i = 0; i < PARTS; i++) {
    parts[i] = join(clocks, a->parts[i], b->parts[i]);
    is_a = is_a && parts[i] == a->parts[i];
    is_b = is_b && parts[i] == b->parts[i];
  }
  if (is_a) return a;
  if (is_b) return b;
  verify_clock_t *joined = take(clocks, a->height);
  memcpy(joined->parts, parts, sizeof parts);
  hold_parts(joined);
  return joined;
}

/* ---- views ---- */

verify_view_t verify_view_copy(const verify_view_t *view, uint32_t lane) {
  if (view->seen != NULL) view->seen->references++;
  return (verify_view_t){.now = {.lane = lane, .count = view->now.count}, .seen = view->seen};
}

verify_view_t verify_view_release(verify_view_t *view) {
  verify_view_t released = verify_view_copy(view, view->now.lane);
  view->is_released = true;
  return released;
}

/* A view that has observed the release `other->now` has observed all that `other` had. */
coll_status_t verify_view_acquire(verify_clocks_t *clocks, verify_view_t *view,
                                  const verify_view_t *other) {
  if (!clocks->are_kept || verify_view_covers(view, other->now)) return COLL_OK;
  COLL_TRY(reserve(clocks, clocks->nodes_most));
  verify_clock_t *joined = join(clocks, view->seen, other->seen);
  if (joined != view->seen) {
    joined->references++;
    release_node(clocks, view->seen);
    view->seen = joined;
  }
  return verify_view_see(clocks, view, other->now);
}

coll_status_t verify_view_see(verify_clocks_t *clocks, verify_view_t *view, verify_epoch_t epoch) {
  if (!clocks->are_kept || verify_view_covers(view, epoch)) return COLL_OK;
  COLL_TRY(reserve(clocks, clocks->height + 1));
  set_count(clocks, &view->seen, epoch);
  return COLL_OK;
}

void verify_view_drop(verify_clocks_t *clocks, verify_view_t *view) {
  release_node(clocks, view->seen);
  view->seen = NULL;
}
