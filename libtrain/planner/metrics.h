/*
 * Metrics of training by stated formulas.
 *
 * The count of FLOPs is what the model's matrix products need, each counted once: a multiply-add is
 * two, backward is twice forward, nothing is added for recomputation, and attention counts the
 * positions that the causal mask lets through. For L layers of width C, V tokens and sequences of
 * T:
 *
 *     FLOPs per token = 6 (12 L C^2 + V C) + 6 L C (T + 1)
 *
 * A layer with experts has the E C of its router and, in place of 8 C^2 of a MLP, as many for each
 * of the top_k experts of a token and for a shared expert.
 *
 * The convention of PaLM (train_layout_flops_per_token), 6 N + 12 L C T, counts attention as if it
 * were not causal, and elements of biases and layernorms as if they were multiplied.
 */
#ifndef LIBTRAIN_PLANNER_METRICS_H
#define LIBTRAIN_PLANNER_METRICS_H

#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"

/* That sentence, for a model with or without experts. */
const char *train_metrics_formula(const train_model_config_t *config);

/* MLPs that a token goes through in a layer: those of its experts, and a shared one. */
int train_metrics_mlps(const train_model_config_t *config, int layer);

/* `length`: tokens of a sequence. */
double train_metrics_layer_flops(const train_model_config_t *config, int layer, int length);
double train_metrics_flops_per_token(const train_model_config_t *config, int length);

/* FLOPs per token that recomputation adds to a forward pass of all layers: the layernorm, queries,
 * keys, values and attention; for a block also attention's result and the MLP's hidden layer. With
 * the causal mask. */
double train_metrics_recompute_flops(const train_model_config_t *config, int length,
                                     train_recompute_t recompute);

/* Model FLOPs utilization (Chowdhery et al. 2022, appendix B): the fraction of `peak` FLOP/s of all
 * ranks together that tokens_per_s need. 0 if peak is 0. */
double train_metrics_mfu(double flops_per_token, double tokens_per_s, double peak);

/* The bubble share of a measured step: 1 - the sum of busy_s[stages] / (stages * span_s), where
 * busy is the time in passes. 0 if the span is 0. */
double train_metrics_bubble(const double busy_s[], int stages, double span_s);

/* The share of a step in which a rank waited for communication. */
double train_metrics_exposed(double waited_s, double step_s);

#endif
