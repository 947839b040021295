/*
 * The table of all algorithms, and algo_build, which makes a checked plan from a row of it. Within
 * a collective, the order of the rows is the order of the public listing.
 */
#include <assert.h>
#include <string.h>

#include "algo/common.h"
#include "algo/compose/compose.h"
#include "algo/list.h"
#include "base/names.h"
#include "base/text.h"

static const algo_t *const algos[] = {
    &algo_allreduce_ring,
    &algo_allreduce_biring,
    &algo_allreduce_multiring,
    &algo_allreduce_butterfly,
    &algo_allreduce_allpairs,
    &algo_allreduce_direct,
    &algo_allreduce_halving_doubling,
    &algo_allreduce_rabenseifner,
    &algo_allreduce_tree,
    &algo_allreduce_circulant,
    &algo_allreduce_swing,
    &algo_allreduce_double_tree,
    &algo_allreduce_leaders,
    &algo_allreduce_line,
    &algo_allreduce_oneshot,
    &algo_allreduce_twophase_push,
    &algo_allreduce_twophase_pull,
    &algo_allreduce_staged,
    &algo_allreduce_mapped_by_two,
    &algo_allreduce_staged_by_two,
    &algo_allreduce_staged_by_two_push,
    &algo_allreduce_hierarchical,
    &algo_allreduce_hierarchical_pipelined,
    &algo_allreduce_torus2d,
    &algo_allreduce_torus2d_multiport,
    &algo_allreduce_torus3d,
    &algo_allreduce_torus3d_multiport,
    &algo_allreduce_mesh2d,
    &algo_allreduce_blueconnect,
    &algo_reduce_binomial,
    &algo_reduce_chain,
    &algo_reduce_bine,
    &algo_reduce_double_tree,
    &algo_reduce_line,
    &algo_reduce_reduce_scatter_gather,
    &algo_reduce_inorder,
    &algo_reduce_linear,
    &algo_reduce_direct,
    &algo_reduce_mapped,
    &algo_reduce_mapped_pull,
    &algo_reduce_staged,
    &algo_reduce_hierarchical,
    &algo_reduce_torus2d,
    &algo_reduce_torus2d_multiport,
    &algo_reduce_torus3d,
    &algo_reduce_torus3d_multiport,
    &algo_reduce_mesh2d,
    &algo_reduce_scatter_ring,
    &algo_reduce_scatter_biring,
    &algo_reduce_scatter_multiring,
    &algo_reduce_scatter_halving,
    &algo_reduce_scatter_circulant,
    &algo_reduce_scatter_bine,
    &algo_reduce_scatter_pat,
    &algo_reduce_scatter_line,
    &algo_reduce_scatter_allpairs,
    &algo_reduce_scatter_mapped,
    &algo_reduce_scatter_staged,
    &algo_reduce_scatter_hierarchical,
    &algo_reduce_scatter_torus2d,
    &algo_reduce_scatter_torus2d_multiport,
    &algo_reduce_scatter_torus3d,
    &algo_reduce_scatter_torus3d_multiport,
    &algo_reduce_scatter_mesh2d,
    &algo_allgather_ring,
    &algo_allgather_biring,
    &algo_allgather_multiring,
    &algo_allgather_doubling,
    &algo_allgather_circulant,
    &algo_allgather_bine,
    &algo_allgather_pat,
    &algo_allgather_line,
    &algo_allgather_allpairs,
    &algo_allgather_mapped,
    &algo_allgather_mapped_push,
    &algo_allgather_staged,
    &algo_allgather_hierarchical,
    &algo_allgather_torus2d,
    &algo_allgather_torus2d_multiport,
    &algo_allgather_torus3d,
    &algo_allgather_torus3d_multiport,
    &algo_allgather_mesh2d,
    &algo_broadcast_binomial,
    &algo_broadcast_chain,
    &algo_broadcast_biring,
    &algo_broadcast_multiring,
    &algo_broadcast_bine,
    &algo_broadcast_double_tree,
    &algo_broadcast_line,
    &algo_broadcast_scatter_allgather,
    &algo_broadcast_linear,
    &algo_broadcast_mapped,
    &algo_broadcast_mapped_shares,
    &algo_broadcast_mapped_push,
    &algo_broadcast_mapped_push_shares,
    &algo_broadcast_staged,
    &algo_broadcast_hierarchical,
    &algo_broadcast_torus2d,
    &algo_broadcast_torus2d_multiport,
    &algo_broadcast_torus3d,
    &algo_broadcast_torus3d_multiport,
    &algo_broadcast_mesh2d,
    &algo_gather_binomial,
    &algo_gather_bine,
    &algo_gather_linear,
    &algo_gather_mapped,
    &algo_gather_mapped_pull,
    &algo_gather_staged,
    &algo_gather_hierarchical,
    &algo_scatter_binomial,
    &algo_scatter_bine,
    &algo_scatter_linear,
    &algo_scatter_mapped,
    &algo_scatter_staged,
    &algo_scatter_hierarchical,
    &algo_alltoall_pairwise,
    &algo_alltoall_bruck,
    &algo_alltoall_allpairs,
    &algo_alltoall_mapped,
    &algo_alltoall_staged,
    &algo_alltoall_hierarchical,
    &algo_alltoallv_pairwise,
    &algo_barrier_dissemination,
    &algo_barrier_tournament,
    &algo_barrier_allpairs,
    &algo_barrier_hierarchical,
    &algo_sendrecv_direct,
    &algo_allgatherv_ring,
    &algo_allgatherv_doubling,
    &algo_allgatherv_allpairs,
    &algo_allgatherv_mapped,
    &algo_reduce_scatterv_ring,
    &algo_reduce_scatterv_halving,
    &algo_reduce_scatterv_allpairs,
    &algo_reduce_scatterv_mapped,
    &algo_gatherv_linear,
    &algo_scatterv_linear,
};

enum { ALGO_COUNT = sizeof algos / sizeof algos[0] };

const algo_t *algo_at(coll_collective_t collective, int index) {
  for (int i = 0; i < ALGO_COUNT; i++) {
    if (algos[i]->collective == collective && index-- == 0) return algos[i];
  }
  return NULL;
}

coll_status_t algo_find(coll_collective_t collective, const char *name, const algo_t **algo) {
  const char *names[ALGO_COUNT];
  size_t count = 0;
  const char *of = base_collective_name(collective);
  if (of == NULL) return base_fail(COLL_ERROR_INVALID, "no such collective: %d", (int)collective);
  for (const algo_t *each; (each = algo_at(collective, (int)count)) != NULL;) {
    if (strcmp(each->name, name) == 0) {
      *algo = each;
      return COLL_OK;
    }
    names[count++] = each->name;
  }
  return base_fail(COLL_ERROR_INVALID, "%s has no algorithm '%s'; did you mean '%s'?", of, name,
                   base_text_nearest(name, names, count));
}

/* Two operands have only one expression, and one reduction computes it. */
plan_order_t algo_order(const algo_t *algo, int size) {
  if (!base_collective_reduces(algo->collective)) return PLAN_ORDER_FIXED;
  bool power = algo_power_below(size) == size;
  plan_order_t order = power && algo->power_order > algo->order ? algo->power_order : algo->order;
  if (size == 1 || (size == 2 && order == PLAN_ORDER_CANONICAL)) return PLAN_ORDER_EXACT;
  return order;
}

bool algo_suits(const algo_t *algo, const plan_shape_t *shape) {
  const topo_layout_t *layout = shape->layout;
  if (algo->two_way && (layout == NULL || layout->fabric == NULL)) return false;
  if (algo->over_rings) return layout != NULL && layout->rings != NULL;
  if (algo->between_hosts) {
    return layout != NULL && layout->levels > 0 && layout->level[0].groups > 1;
  }
  if (algo->composition == NULL) return true;
  if (layout == NULL) return false;
  return layout->dims > 1 || (layout->levels > 0 && layout->level[layout->levels - 1].groups > 1);
}

/* `composer`: of a composed algorithm for two ranks or more, else NULL. */
static coll_status_t build_program(const algo_t *algo, algo_composer_t *composer, plan_t *plan,
                                   int rank, bool in_place) {
  plan_emitter_t e = {.plan = plan, .program = &plan->programs[rank], .rank = rank};
  e.program->in_place = in_place;
  if (plan->shape.size == 1) {
    algo_copy_through(&e);
  } else if (composer != NULL) {
    algo_compose_build(&e, composer);
  } else {
    algo->build(&e);
  }
  COLL_TRY(e.status);
  return plan_check_program(plan, rank);
}

/* Makes the lanes that the outline has written into the header of a plan of one lane. */
static coll_status_t make_lanes(plan_t *plan) {
  int32_t lanes = plan->lanes;
  plan->lanes = 1;
  return plan_set_lanes(plan, lanes);
}

/* Fills in the header, and makes a composed algorithm's composer. */
static coll_status_t outline(const algo_t *algo, plan_t *plan, algo_composer_t **composer) {
  coll_status_t status = COLL_OK;
  *composer = NULL;
  plan->order = algo_order(algo, plan->shape.size);
  if (plan->shape.size == 1) return COLL_OK;
  if (algo->composition != NULL) {
    status = algo_composer_create(plan, algo->composition, composer);
  } else {
    algo->outline(plan);
  }
  coll_status_t made = make_lanes(plan);
  return status == COLL_OK ? made : status;
}

coll_status_t algo_outline(const algo_t *algo, const plan_shape_t *shape, plan_t **plan) {
  algo_composer_t *composer;
  assert(shape->collective == algo->collective);
  COLL_TRY(plan_create(shape, algo->name, plan));
  coll_status_t status = outline(algo, *plan, &composer);
  algo_composer_free(composer);
  if (status != COLL_OK) plan_free(*plan);
  return status;
}

coll_status_t algo_is_legal(const algo_t *algo, const plan_shape_t *shape, bool *legal) {
  *legal = true;
  if (topo_layout_is_mapped(shape->layout) || algo->collective == COLL_BARRIER) return COLL_OK;
  plan_t *plan;
  COLL_TRY(algo_outline(algo, shape, &plan));
  *legal = plan->reach == PLAN_REACH_OWN;
  plan_free(plan);
  return COLL_OK;
}

coll_status_t algo_build(const algo_t *algo, const plan_shape_t *shape, int rank, bool in_place,
                         plan_t **plan) {
  assert(shape->collective == algo->collective);
  assert(rank == ALGO_ALL_RANKS || (rank >= 0 && rank < shape->size));
  plan_t *made = NULL;
  COLL_TRY(plan_create(shape, algo->name, &made));
  algo_composer_t *composer;
  coll_status_t status = outline(algo, made, &composer);
  int first = rank == ALGO_ALL_RANKS ? 0 : rank;
  int last = rank == ALGO_ALL_RANKS ? shape->size - 1 : rank;
  for (int each = first; each <= last && status == COLL_OK; each++) {
    status = build_program(algo, composer, made, each, in_place);
  }
  algo_composer_free(composer);
  if (status != COLL_OK) {
    plan_free(made);
    return status;
  }
  *plan = made;
  return COLL_OK;
}
