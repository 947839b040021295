/* --trace of gpt train: what all ranks did and when, as a file for Perfetto. */
#ifndef TOOLS_GPT_TRACE_H
#define TOOLS_GPT_TRACE_H

#include "libtrain/parallel/trace.h"
#include "tools/gpt/parallel.h"
#include "tools/gpt/settings.h"

/* The trace of this rank, NULL without --trace. COLL_ERROR_SYSTEM: rank 0 cannot write the file.
 * Not collective. The caller destroys it. */
coll_status_t gpt_trace_open(const gpt_settings_t *settings, const train_group_t *group,
                             train_trace_t **trace);

/* Writes the file, and says so on rank 0. Collective; NULL is allowed. */
coll_status_t gpt_trace_write(const train_trace_t *trace, const gpt_settings_t *settings,
                              const train_group_t *group, const gpt_parallel_t *parallel);

#endif
