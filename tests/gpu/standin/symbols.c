/*
 * cuGetProcAddress. One build of the stand-in is without this file, as an old driver is.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/standin/state.h"

/* Functions that libcoll asks for with this version are older: programs ask with their first one.
 */
#define OLDEST 12000

typedef struct symbol {
  const char *name;
  int since;
  void (*function)(void);
} symbol_t;

#define SYMBOL(since, name, suffix, parameters) {#name, since, (void (*)(void))name##suffix},
#define PROGRAM_SYMBOL(name, parameters) {#name, OLDEST, (void (*)(void))name},
static const symbol_t symbols[] = {CUDA_FUNCTIONS(SYMBOL) STANDIN_PROGRAM_FUNCTIONS(PROGRAM_SYMBOL){
    "cuDriverGetVersion", OLDEST, (void (*)(void))cuDriverGetVersion}};

/* Programs ask without the suffix of the symbol. */
static bool has_name(const symbol_t *symbol, const char *name) {
  size_t bytes = strlen(name);
  if (strncmp(symbol->name, name, bytes) != 0) return false;
  return symbol->name[bytes] == '\0' || strcmp(symbol->name + bytes, "_v2") == 0;
}

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
    if (!has_name(&symbols[i], name)) continue;
    if (symbols[i].since > standin_setting("COLL_STANDIN_VERSION", STANDIN_VERSION)) break;
    bool is_there = version >= symbols[i].since || symbols[i].since == OLDEST;
    *status = is_there ? CUDA_SYMBOL_FOUND : CUDA_SYMBOL_NEEDS_VERSION;
    if (*status != CUDA_SYMBOL_FOUND) return CUDA_RESULT_NOT_FOUND;
    memcpy(function, &symbols[i].function, sizeof *function);
    return CUDA_RESULT_OK;
  }
  return CUDA_RESULT_NOT_FOUND;
}
