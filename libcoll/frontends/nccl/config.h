/*
 * ncclConfig_t of any release: known by its magic number, read as far as its size and this front
 * end know it.
 */
#ifndef FRONTENDS_NCCL_CONFIG_H
#define FRONTENDS_NCCL_CONFIG_H

#include <stdbool.h>

#include "frontends/nccl/errors.h"

/* Sets *blocking to the config's, else to `inherited`; config may be NULL. The other fields are
 * hints about a GPU's resources. */
ncclResult_t nccl_config_read(const ncclConfig_t *config, bool inherited, const char *function,
                              bool *blocking);

#endif
