/* What rank 0 has sent along each axis and waited for, in the outputs of gpt train. */
#ifndef TOOLS_GPT_TRAFFIC_H
#define TOOLS_GPT_TRAFFIC_H

#include <jansson.h>

#include "libtrain/files/events.h"
#include "libtrain/trainer.h"

#define GPT_TRAFFIC_SCALARS_MAX (2 * TRAIN_TRAFFIC_AXES)

/* Adds "tensor_bytes_sent" and "tensor_waited_ms", and so on, for each axis that has sent in
 * the step, to a record of the log; NULL is allowed. */
void gpt_traffic_log(const train_step_t *step, json_t *line);

/* The same as "traffic/tensor_bytes" and "time/tensor_waited_ms". Returns their number. */
size_t gpt_traffic_scalars(const train_step_t *step,
                           train_scalar_t scalars[GPT_TRAFFIC_SCALARS_MAX]);

/* Prints a line for each of these axes; nothing if only the data axis has sent, whose bytes are all
 * that is sent. */
void gpt_traffic_print(const train_step_t *step);

#endif
