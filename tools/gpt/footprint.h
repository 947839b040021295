/* Memory of a run: the total that is predicted, and the memory footprint of this process. */
#ifndef TOOLS_GPT_FOOTPRINT_H
#define TOOLS_GPT_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/parallel/memory.h"

size_t gpt_memory_total(const train_memory_t *memory);

/* Current resident bytes of writable mappings, which excludes code and mapped token shards. Pages
 * shared by several processes are divided among them (proportional set size), so footprints of
 * ranks can be added. 0 if the kernel does not provide it. */
uint64_t gpt_footprint_bytes(void);

#endif
