/* The value of --slices of gpt train, gpt plan and gpt schedule. */
#ifndef TOOLS_GPT_SLICES_H
#define TOOLS_GPT_SLICES_H

#include "libtrain/model/slices.h"

typedef struct gpt_slices {
  int count;              /* of a sequence */
  train_slices_t lengths; /* .count 0: not given */
} gpt_slices_t;

/* "4": so many, at most `most`; "12,10,10": their lengths. NULL: `otherwise`. */
coll_status_t gpt_slices_read(const char *text, int otherwise, int most, gpt_slices_t *slices);

#endif
