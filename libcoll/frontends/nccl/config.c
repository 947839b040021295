/*
 * ncclConfig_t.
 */
#include "frontends/nccl/config.h"

#include "frontends/nccl/environment.h"

ncclResult_t nccl_config_read(const ncclConfig_t *config, bool inherited, const char *function,
                              bool *blocking) {
  *blocking = nccl_environment_blocking(inherited);
  if (config == NULL) return ncclSuccess;
  if (config->magic != NCCL_MAGIC ||
      config->size < offsetof(ncclConfig_t, blocking) + sizeof config->blocking) {
    return nccl_fail(ncclInvalidArgument, "%s: set config to NCCL_CONFIG_INITIALIZER first",
                     function);
  }
  if (config->blocking == NCCL_UNDEFINED) return ncclSuccess;
  if (config->blocking != 0 && config->blocking != 1) {
    return nccl_fail(ncclInvalidArgument, "%s: config.blocking is %d: give 0 or 1", function,
                     config->blocking);
  }
  *blocking = nccl_environment_blocking(config->blocking == 1);
  return ncclSuccess;
}
