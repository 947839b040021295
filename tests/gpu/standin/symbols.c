/*
 * cuGetProcAddress. One build of the stand-in is without this file, as an old driver is.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/state.h"

typedef struct symbol {
  const char *name;
  int since;
  void (*function)(void);
} symbol_t;

#define SYMBOL(since, name, suffix, parameters) {#name, since, (void (*)(void))name##suffix},
static const symbol_t symbols[] = {CUDA_FUNCTIONS(SYMBOL)};

__attribute__((visibility("default"))) cuda_result_t cuGetProcAddress_v2(
    const char *name, void **function, int version, uint64_t flags, cuda_symbol_status_t *status);

cuda_result_t cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                  cuda_symbol_status_t *status) {
  const char *missing = getenv("COLL_STANDIN_MISSING");
  cuda_symbol_status_t ignored;
  if (name == NULL || function == NULL || flags > 2) return CUDA_RESULT_INVALID_VALUE;
  if (status == NULL) status = &ignored;
  *status = CUDA_SYMBOL_MISSING;
  *function = NULL;
  if (missing != NULL && strcmp(missing, name) == 0) return CUDA_RESULT_NOT_FOUND;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    if (strcmp(symbols[i].name, name) != 0) continue;
    *status = version < symbols[i].since ? CUDA_SYMBOL_NEEDS_VERSION : CUDA_SYMBOL_FOUND;
    if (*status != CUDA_SYMBOL_FOUND) return CUDA_RESULT_NOT_FOUND;
    memcpy(function, &symbols[i].function, sizeof *function);
    return CUDA_RESULT_OK;
  }
  return CUDA_RESULT_NOT_FOUND;
}
