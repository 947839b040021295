/* Memory: what a run is predicted to take, and what this process takes from its machine. */
#ifndef TOOLS_GPT_FOOTPRINT_H
#define TOOLS_GPT_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/parallel/memory.h"

size_t gpt_memory_total(const train_memory_t *memory);

/* Resident bytes, now, of what can be written to: no programs, no mapped tokens. A page that
 * several processes map counts in equal parts for each, so that the ranks' footprints add up to
 * what all of them take. 0 where the kernel does not tell. */
uint64_t gpt_footprint_bytes(void);

#endif
