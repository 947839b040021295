/* One function per axis. */
#include "libtrain/mesh/fit.h"

#include <stdlib.h>

/* The divisor of `number` that is nearest to `wanted`; of two, the smaller one. */
static int nearest_divisor(int number, int wanted) {
  int nearest = 1;
  for (int divisor = 1; divisor <= number; divisor++) {
    bool is_nearer = abs(divisor - wanted) < abs(nearest - wanted);
    if (number % divisor == 0 && is_nearer) nearest = divisor;
  }
  return nearest;
}

/* The positive multiple of `unit` that is nearest to `wanted`. */
static int nearest_multiple(int unit, int wanted) {
  int below = wanted / unit * unit;
  return below > 0 && wanted - below <= below + unit - wanted ? below : below + unit;
}

static coll_status_t fit_tp(int tp, const train_model_config_t *config,
                            const train_mesh_demands_t *demands) {
  if (config->heads % tp != 0 && demands->model_is_fixed) {
    return base_fail(COLL_ERROR_INVALID,
                     "--tp %d does not divide the %d attention heads: the nearest that does is "
                     "--tp %d",
                     tp, config->heads, nearest_divisor(config->heads, tp));
  }
  if (config->heads % tp != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--tp %d does not divide the %d attention heads: the nearest that does is "
                     "--tp %d, or --heads %d",
                     tp, config->heads, nearest_divisor(config->heads, tp),
                     nearest_multiple(tp, config->heads));
  }
  if (config->vocabulary < tp) {
    return base_fail(COLL_ERROR_INVALID,
                     "--tp %d cannot divide a vocabulary of %d tokens: give at most --tp %d", tp,
                     config->vocabulary, config->vocabulary);
  }
  return COLL_OK;
}

static coll_status_t fit_ring(int cp, const train_model_config_t *config,
                              const train_mesh_demands_t *demands) {
  if (cp == 1 || config->context % (2 * cp) == 0) return COLL_OK;
  if (demands->model_is_fixed) {
    int nearest = config->context % 2 == 0 ? nearest_divisor(config->context / 2, cp) : 1;
    return base_fail(COLL_ERROR_INVALID,
                     "--cp %d cuts a sequence into %d segments, two for each rank, but the context "
                     "of %d tokens is no multiple of %d: the nearest that fits is --cp %d",
                     cp, 2 * cp, config->context, 2 * cp, nearest);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--cp %d cuts a sequence into %d segments, two for each rank, but the context "
                   "of %d tokens is no multiple of %d: the nearest that is is --context %d",
                   cp, 2 * cp, config->context, 2 * cp, nearest_multiple(2 * cp, config->context));
}

static coll_status_t fit_ulysses(int tp, int cp, const train_model_config_t *config,
                                 const train_mesh_demands_t *demands) {
  if (config->context % cp != 0 && demands->model_is_fixed) {
    return base_fail(COLL_ERROR_INVALID,
                     "--cp %d does not divide the context of %d tokens: the nearest that does is "
                     "--cp %d",
                     cp, config->context, nearest_divisor(config->context, cp));
  }
  if (config->context % cp != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--cp %d does not divide the context of %d tokens: the nearest that it "
                     "divides is --context %d",
                     cp, config->context, nearest_multiple(cp, config->context));
  }
  if (config->heads / tp % cp != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "Ulysses divides the %d attention head%s of a rank over --cp %d: the nearest "
                     "that divides them is --cp %d",
                     config->heads / tp, config->heads / tp > 1 ? "s" : "", cp,
                     nearest_divisor(config->heads / tp, cp));
  }
  return COLL_OK;
}

static coll_status_t fit_sequence(int tp, int cp, const train_model_config_t *config) {
  if (config->context / cp % tp == 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "sequence parallelism divides the %d tokens of a sequence on a rank over --tp "
                   "%d, which does not divide them: give a context that is a multiple of %d",
                   config->context / cp, tp, tp * cp);
}

/* The first stage has the embedding and the last one the head, so that they need no layers. */
static coll_status_t fit_blocks(int pp, int chunks, const train_model_config_t *config,
                                const train_mesh_demands_t *demands) {
  int ranges = pp * chunks, sum = 0;
  if (demands->block_ranges != ranges) {
    return base_fail(COLL_ERROR_INVALID,
                     "--partition gives the layers of %d stages, but --pp %d%s has %d: give as "
                     "many numbers, or --partition even",
                     demands->block_ranges, pp, chunks > 1 ? " with virtual stages" : "", ranges);
  }
  for (int i = 0; i < ranges; i++) {
    sum += demands->blocks[i];
    bool inner = i > 0 && i < ranges - 1;
    if (demands->blocks[i] > 0 || !inner) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "--partition gives stage %d of 0 to %d no layers: only the first stage, which "
                     "embeds, and the last one, which classifies, can do without",
                     i, ranges - 1);
  }
  if (sum == config->layers) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--partition gives the stages %d layers, but the model has %d: give numbers "
                   "whose sum is %d",
                   sum, config->layers, config->layers);
}

static coll_status_t fit_pp(int pp, const train_model_config_t *config,
                            const train_mesh_demands_t *demands) {
  int chunks = demands->virtual_stages > 1 ? demands->virtual_stages : 1;
  if (chunks > 1 && pp == 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "--virtual-stages %d needs a pipeline: give --pp 2 or more, or leave it out",
                     chunks);
  }
  if (demands->blocks != NULL) {
    COLL_TRY(fit_blocks(pp, chunks, config, demands));
  } else if (config->layers / chunks < pp) {
    return base_fail(COLL_ERROR_INVALID,
                     "%d layers are less than the %d stages of --pp %d%s: give at most --pp %d",
                     config->layers, pp * chunks, pp, chunks > 1 ? " with virtual stages" : "",
                     config->layers / chunks > 1 ? config->layers / chunks : 1);
  }
  if (chunks > 1 && demands->micro_batches % pp != 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "--virtual-stages %d needs micro-batches in groups of --pp %d, but --accumulate "
        "is %d: the nearest that fits is --accumulate %d",
        chunks, pp, demands->micro_batches, nearest_multiple(pp, demands->micro_batches));
  }
  return COLL_OK;
}

static coll_status_t fit_ep(int ep, int experts, bool model_is_fixed) {
  if (ep == 1 || (experts > 0 && experts % ep == 0)) return COLL_OK;
  if (experts == 0 && model_is_fixed) {
    return base_fail(COLL_ERROR_INVALID, "--ep %d: the model has no experts: leave out --ep", ep);
  }
  if (experts == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "--ep %d: the model has no experts; give --experts %d, or leave out --ep", ep,
                     ep);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--ep %d does not divide --experts %d: the nearest that does is --ep %d", ep,
                   experts, nearest_divisor(experts, ep));
}

coll_status_t train_mesh_fit(const train_mesh_shape_t *shape, const train_model_config_t *config,
                             const train_mesh_demands_t *demands) {
  int tp = shape->size[TRAIN_MESH_TP], cp = shape->size[TRAIN_MESH_CP];
  COLL_TRY(fit_tp(tp, config, demands));
  COLL_TRY(demands->ulysses ? fit_ulysses(tp, cp, config, demands) : fit_ring(cp, config, demands));
  if (demands->sequence_parallel) COLL_TRY(fit_sequence(tp, cp, config));
  COLL_TRY(fit_pp(shape->size[TRAIN_MESH_PP], config, demands));
  COLL_TRY(fit_ep(shape->size[TRAIN_MESH_EP], demands->experts, demands->model_is_fixed));
  if (shape->etp == tp || demands->experts > 0) return COLL_OK;
  if (demands->model_is_fixed) {
    return base_fail(COLL_ERROR_INVALID, "--etp %d: the model has no experts: leave out --etp",
                     shape->etp);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--etp %d: the model has no experts; give --experts %d, or leave out --etp",
                   shape->etp, tp);
}
