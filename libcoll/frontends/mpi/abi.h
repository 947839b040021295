/*
 * The MPI below the layer. The same sources are compiled against Open MPI's mpi.h, MPICH's (whose
 * binary interface Intel MPI has too) and that of the standard ABI of MPI-5. The layer is not
 * linked with an MPI: programs that are no MPI programs may have it preloaded too, and Python loads
 * its MPI with RTLD_LOCAL. So functions and Open MPI's predefined objects are looked up at run
 * time.
 */
#ifndef FRONTENDS_MPI_ABI_H
#define FRONTENDS_MPI_ABI_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LAYER_EXPORT __attribute__((visibility("default")))

#if defined(OMPI_MAJOR_VERSION)
#define LAYER_NAME "libcoll-mpi-ompi.so"
/* Predefined handles of Open MPI are addresses of its variables. Looking one up is slow. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)pmpi_symbol(#global))
/* What fortran.c needs; elsewhere these are no functions. */
#define PMPI_FORTRAN_FUNCTIONS(F) F(Comm_f2c) F(Op_f2c) F(Request_c2f) F(Request_f2c) F(Type_f2c)
#elif defined(MPI_ABI_VERSION) && !defined(MPICH_NUMVERSION)
#define LAYER_NAME "libcoll-mpi-abi.so"
#else
#define LAYER_NAME "libcoll-mpi-mpich.so"
#endif
#ifndef PMPI_FORTRAN_FUNCTIONS
#define PMPI_FORTRAN_FUNCTIONS(F)
#endif

/* What the layer calls: pmpi.Bcast is PMPI_Bcast. */
#define PMPI_FUNCTIONS(F)   \
  PMPI_FORTRAN_FUNCTIONS(F) \
  F(Add_error_class)        \
  F(Add_error_code)         \
  F(Add_error_string)       \
  F(Allgather)              \
  F(Allgatherv)             \
  F(Allreduce)              \
  F(Alltoall)               \
  F(Alltoallv)              \
  F(Barrier)                \
  F(Bcast)                  \
  F(Comm_call_errhandler)   \
  F(Comm_create_keyval)     \
  F(Comm_delete_attr)       \
  F(Comm_dup)               \
  F(Comm_free)              \
  F(Comm_free_keyval)       \
  F(Comm_get_attr)          \
  F(Comm_get_errhandler)    \
  F(Comm_rank)              \
  F(Comm_set_attr)          \
  F(Comm_set_errhandler)    \
  F(Comm_size)              \
  F(Comm_test_inter)        \
  F(Errhandler_free)        \
  F(Finalize)               \
  F(Finalized)              \
  F(Gather)                 \
  F(Gatherv)                \
  F(Get_library_version)    \
  F(Get_processor_name)     \
  F(Grequest_complete)      \
  F(Grequest_start)         \
  F(Iallgather)             \
  F(Iallgatherv)            \
  F(Iallreduce)             \
  F(Ialltoall)              \
  F(Ialltoallv)             \
  F(Ibarrier)               \
  F(Ibcast)                 \
  F(Igather)                \
  F(Igatherv)               \
  F(Initialized)            \
  F(Iprobe)                 \
  F(Ireduce)                \
  F(Ireduce_scatter)        \
  F(Ireduce_scatter_block)  \
  F(Iscatter)               \
  F(Iscatterv)              \
  F(Pack)                   \
  F(Query_thread)           \
  F(Reduce)                 \
  F(Reduce_scatter)         \
  F(Reduce_scatter_block)   \
  F(Request_get_status)     \
  F(Scatter)                \
  F(Scatterv)               \
  F(Sendrecv)               \
  F(Status_set_cancelled)   \
  F(Status_set_elements)    \
  F(Test)                   \
  F(Testall)                \
  F(Testany)                \
  F(Testsome)               \
  F(Type_commit)            \
  F(Type_contiguous)        \
  F(Type_create_keyval)     \
  F(Type_create_struct)     \
  F(Type_dup)               \
  F(Type_free)              \
  F(Type_free_keyval)       \
  F(Type_get_attr)          \
  F(Type_get_contents)      \
  F(Type_get_envelope)      \
  F(Type_get_extent)        \
  F(Type_set_attr)          \
  F(Type_size_x)            \
  F(Unpack)                 \
  F(Wait)                   \
  F(Waitall)                \
  F(Waitany)                \
  F(Waitsome)

#define PMPI_MEMBER(name) __typeof__(&PMPI_##name) name;
typedef struct pmpi {
  PMPI_FUNCTIONS(PMPI_MEMBER)
} pmpi_t;

extern pmpi_t pmpi;

extern atomic_bool pmpi_is_loaded;

/* The slow part of pmpi_load. */
void pmpi_find(void);

/* Fills pmpi, once. If the process has no MPI, or another one than the layer was built for, prints
 * what to do and ends the process: handles of the two have different sizes. */
static inline void pmpi_load(void) {
  if (!atomic_load_explicit(&pmpi_is_loaded, memory_order_acquire)) pmpi_find();
}

/* The address of a symbol of the MPI, NULL if it has none. */
void *pmpi_symbol(const char *name);

#endif
