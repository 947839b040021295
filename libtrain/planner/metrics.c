/* The formulas of metrics.h. */
#include "libtrain/planner/metrics.h"

const char *train_metrics_formula(const train_model_config_t *config) {
  if (config->experts == 0) return "6 (12 L C^2 + V C) + 6 L C (T + 1) per token";
  return "6 (4 L C^2 + 8 M C^2 + R E C + V C) + 6 L C (T + 1) per token, which goes through M MLPs "
         "and experts and R routers";
}

int train_metrics_mlps(const train_model_config_t *config, int layer) {
  if (!train_model_has_experts(config, layer)) return 1;
  return config->top_k + (config->shared_expert ? 1 : 0);
}

/* Forward and backward; the three products of a multiply-add each. */
double train_metrics_layer_flops(const train_model_config_t *config, int layer, int length) {
  double width = config->width, mlps = train_metrics_mlps(config, layer);
  double router = train_model_has_experts(config, layer) ? config->experts * width : 0;
  return 6 * ((4 + 8 * mlps) * width * width + router) + 6 * width * (length + 1.0);
}

double train_metrics_flops_per_token(const train_model_config_t *config, int length) {
  double flops = 6.0 * config->vocabulary * config->width;
  for (int layer = 0; layer < config->layers; layer++) {
    flops += train_metrics_layer_flops(config, layer, length);
  }
  return flops;
}

double train_metrics_recompute_flops(const train_model_config_t *config, int length,
                                     train_recompute_t recompute) {
  double layers = config->layers, width = config->width;
  double attention = 2 * 3 * width * width + 2 * width * (length + 1.0);
  double rest = 2 * (1 + 4) * width * width;
  if (recompute == TRAIN_RECOMPUTE_NONE) return 0;
  return layers * (recompute == TRAIN_RECOMPUTE_BLOCK ? attention + rest : attention);
}

double train_metrics_mfu(double flops_per_token, double tokens_per_s, double peak) {
  return peak > 0 ? flops_per_token * tokens_per_s / peak : 0;
}

double train_metrics_bubble(const double busy_s[], int stages, double span_s) {
  double busy = 0;
  for (int i = 0; i < stages; i++) busy += busy_s[i];
  return span_s > 0 ? 1 - busy / (stages * span_s) : 0;
}

double train_metrics_exposed(double waited_s, double step_s) {
  return step_s > 0 ? waited_s / step_s : 0;
}
