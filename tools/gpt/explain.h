/* Shows which library multiplies the matrices of a run (gpt train --explain). */
#ifndef TOOLS_GPT_EXPLAIN_H
#define TOOLS_GPT_EXPLAIN_H

#include "libtrain/model/model.h"

/* Prints a row for each shape of tile that the model's operators have used: its library and the
 * rate of one thread, measured when the library was chosen. */
void gpt_explain_print(const train_model_t *model);

#endif
