/* Loads libibverbs, and looks its functions up once. It stays loaded. */
#include "transport/net/wire/verbs/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define LIBRARY "libibverbs.so.1"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static verbs_lib_t loaded;
static const char *missing; /* NULL: nothing */

/* Sets a pointer to a function, which C cannot convert from a pointer to data. */
static void find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  if (symbol == NULL && missing == NULL) missing = name;
}

/* Memory that the library registers must not be copied on write when the process forks. It takes
 * care of that if asked before anything is registered, where the kernel does not. */
static void load(void) {
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    missing = LIBRARY;
    return;
  }
#define FIND(name, result, arguments) find(library, #name, &loaded.name);
  VERBS_FUNCTIONS(FIND)
#undef FIND
  if (missing == NULL) (void)loaded.ibv_fork_init();
}

coll_status_t verbs_lib_load(const verbs_lib_t **lib) {
  pthread_once(&once, load);
  if (missing == NULL) {
    *lib = &loaded;
    return COLL_OK;
  }
  if (strcmp(missing, LIBRARY) == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     LIBRARY " cannot be loaded (Debian: libibverbs1 ibverbs-providers)");
  }
  return base_fail(COLL_ERROR_UNSUPPORTED, LIBRARY " is too old: it has no %s", missing);
}
