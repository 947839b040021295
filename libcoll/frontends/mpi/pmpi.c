/*
 * Finds the MPI in the process, and checks that it is one that the layer was built for.
 */
#include "frontends/mpi/abi.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pmpi_t pmpi;
atomic_bool pmpi_is_loaded;

static void *mpi_library; /* RTLD_DEFAULT: its symbols are global */

/* Open MPI's Fortran library has constants of its own, and is loaded beside the MPI. */
void *pmpi_symbol(const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == NULL && mpi_library != RTLD_DEFAULT) symbol = dlsym(mpi_library, name);
  return symbol;
}

/* One step of dl_iterate_phdr: whether this library has an MPI that is not global. */
static int find_local(struct dl_phdr_info *info, size_t bytes, void *context) {
  void *handle;
  (void)bytes;
  (void)context;
  if (strstr(info->dlpi_name, "libmpi") == NULL) return 0;
  handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return 0;
  if (dlsym(handle, "PMPI_Init") == NULL) return 0;
  mpi_library = handle;
  return 1;
}

static void __attribute__((noreturn)) refuse(const char *version) {
  fprintf(stderr,
          "libcoll: " LAYER_NAME
          " was preloaded into a program with another MPI (%s): start the "
          "program with coll-mpi, which chooses the right library\n",
          version);
  exit(1);
}

/* The file that the MPI is in. */
static const char *mpi_file(void) {
  Dl_info info;
  void *init = pmpi_symbol("PMPI_Init");
  return init != NULL && dladdr(init, &info) != 0 ? info.dli_fname : "";
}

/* Whether the MPI has the handles that the layer was built for. Only Open MPI has variables as
 * handles. The functions of MPI_Abi_* do not say which of the others it has: MPICH's and Intel
 * MPI's libraries for either interface have them. Their names differ; all with MPICH's interface
 * are version 12 of their library. */
static bool has_own_handles(void) {
  bool is_abi = strstr(mpi_file(), "libmpi_abi") != NULL;
  bool is_open_mpi = !is_abi && pmpi_symbol("ompi_mpi_comm_world") != NULL;
#if defined(OMPI_MAJOR_VERSION)
  return is_open_mpi;
#elif defined(MPI_ABI_VERSION) && !defined(MPICH_NUMVERSION)
  return is_abi;
#else
  return !is_abi && !is_open_mpi && strstr(mpi_file(), ".so.12") != NULL;
#endif
}

/* Ends the process if the MPI is of another family. */
static void check_family(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0, (*get_version)(char *, int *) = NULL;
  if (has_own_handles()) return;
  *(void **)&get_version = pmpi_symbol("PMPI_Get_library_version");
  if (get_version != NULL) get_version(version, &length);
  version[strcspn(version, "\n\t,")] = '\0';
  refuse(version[0] != '\0' ? version : mpi_file());
}

static void load(void) {
  mpi_library = RTLD_DEFAULT;
  if (dlsym(RTLD_DEFAULT, "PMPI_Init") == NULL) dl_iterate_phdr(find_local, NULL);
  check_family();
#define PMPI_LOOK_UP(name)                                                     \
  *(void **)&pmpi.name = pmpi_symbol("PMPI_" #name);                           \
  if (pmpi.name == NULL) {                                                     \
    fprintf(stderr, "libcoll: " LAYER_NAME ": this process has no PMPI_" #name \
                    ": start the program without the layer\n");                \
    exit(1);                                                                   \
  }
  PMPI_FUNCTIONS(PMPI_LOOK_UP)
#undef PMPI_LOOK_UP
  atomic_store_explicit(&pmpi_is_loaded, true, memory_order_release);
}

void pmpi_find(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
}
