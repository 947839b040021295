/*
 * The layers of a block on this rank: operators over its cut of the tensors, and the collectives
 * of the tensor axis that make the results whole (Shoeybi et al. 2019). Layers come in pairs: the
 * first of a pair is cut by output features, so that its input must be whole, and its backward
 * pass gives a part of the input's gradient; the second is cut by input features and gives a part
 * of the output. Without tensor ranks nothing is sent.
 *
 * With sequence parallelism (Korthikanti et al. 2022) a rank has some rows of the residual stream
 * only: rows are gathered before the first layer of a pair, and the second's result is reduced and
 * scattered.
 *
 * Collectives overlap with products as train_model_axes_t.tensor_overlap says (model_options.h).
 */
#ifndef LIBTRAIN_MODEL_LAYERS_H
#define LIBTRAIN_MODEL_LAYERS_H

#include "libtrain/model/activations.h"
#include "libtrain/model/model.h"
#include "libtrain/model/unit.h"

/* Rows of the residual stream of the slot's micro-batch on this rank. */
int train_stream_rows(const train_model_t *model, const train_slot_t *slot);

/* ---- the tensor axis ---- */

/* The rows of all tensor ranks of stream[stream_rows, width]; the same array if it is whole. The
 * result is valid until the next call, or train_column_linear_backward. */
const void *train_layers_gather(const train_model_t *model, const train_slot_t *slot,
                                const void *stream);

/* Where to compute a result of [rows, width] that will be reduced into stream[stream_rows, width]:
 * the stream itself where that has all rows. */
void *train_layers_partial(const train_model_t *model, void *stream);

/* Sums partial[rows, width] over the tensor ranks. Returns the sums: `partial` itself, or with
 * sequence parallelism own[stream_rows, width], this rank's rows of them. */
void *train_layers_reduce(const train_model_t *model, const train_slot_t *slot, void *partial,
                          void *own);

/* ---- layers ---- */

/* The bias of a weight is the next tensor of the unit. */
void train_layernorm_forward(const train_model_t *model, const train_slot_t *slot,
                             const train_unit_view_t *unit, int weight, const void *in, void *out,
                             float *mean, float *rstd);

/* `d_out` is the gradient of the output's rows on this rank. Adds to the gradient of the stream, or
 * overwrites it if `first`. If the unit's gradients are not open, those of weight and bias are
 * written to kept[2, width]. */
void train_layernorm_backward(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, int weight, const void *d_out,
                              const void *in, const float *mean, const float *rstd, bool first,
                              float *kept);

/* out[rows, features] of stream[stream_rows, width], which is gathered, and GELU of it unless
 * active is NULL. */
void train_column_linear_forward(const train_model_t *model, const train_slot_t *slot,
                                 const train_unit_view_t *unit, int weight, const void *stream,
                                 void *out, void *active);

/* The same of in[rows, width] that is gathered. */
void train_column_linear_whole_forward(const train_model_t *model, const train_slot_t *slot,
                                       const train_unit_view_t *unit, int weight, const void *in,
                                       void *out, void *active);

/* Returns the gradient of the input, valid until the next call of a layer or gather. Gathers `in`
 * only for the parameters' gradients, if these are open. */
const void *train_column_linear_backward(const train_model_t *model, const train_slot_t *slot,
                                         const train_unit_view_t *unit, int weight,
                                         const void *d_out, const void *in);

/* The same, but `in` is gathered, and this tensor rank's part of the gradient is left in
 * d_in[rows, width]. NULL for d_in: only the parameters' gradients. */
void train_column_linear_partial_backward(const train_model_t *model, const train_slot_t *slot,
                                          const train_unit_view_t *unit, int weight,
                                          const void *d_out, const void *in, void *d_in);

/* stream[stream_rows, width] = residual + in * weight^T + bias, of in[rows, features]. */
void train_row_linear_forward(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, int weight, const void *in,
                              const void *residual, void *stream);

/* d_in[rows, features] from the gradient of the stream; `hidden` as in linear_backward of ops.h. */
void train_row_linear_backward(const train_model_t *model, const train_slot_t *slot,
                               const train_unit_view_t *unit, int weight, const void *in,
                               const void *hidden, void *d_in);

/* ---- what the first part of a split backward pass keeps ----------------------------------------
 * Copies a gradient for the second part to the place of an array of its size that nothing reads
 * again; does nothing if the unit's gradients are open. */

/* gradient[rows, columns]. */
void train_layers_keep(const train_model_t *model, const train_unit_view_t *unit, int rows,
                       size_t columns, const void *gradient, void *place);

/* The gradient of the stream. */
void train_layers_keep_stream(const train_model_t *model, const train_slot_t *slot,
                              const train_unit_view_t *unit, void *place);

/* ---- the parameters' gradients alone -----------------------------------------------------------
 * The second part of a split backward pass. */

void train_layernorm_backward_weight(const train_model_t *model, const train_unit_view_t *unit,
                                     int weight, const float *kept);

/* With sequence parallelism, gathers `in` here instead of in the first part. */
void train_column_linear_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                         const train_unit_view_t *unit, int weight,
                                         const void *d_out, const void *in);

/* d_out[stream_rows, width]. With sequence parallelism it is gathered in both parts: that costs
 * rows * width * (p - 1) / p elements more than a backward pass that is not split. */
void train_row_linear_backward_weight(const train_model_t *model, const train_slot_t *slot,
                                      const train_unit_view_t *unit, int weight, const void *d_out,
                                      const void *in);

#endif
