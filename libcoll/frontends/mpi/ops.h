/*
 * Which predefined ops libcoll reduces with, and which types.
 */
#ifndef FRONTENDS_MPI_OPS_H
#define FRONTENDS_MPI_OPS_H

#include "frontends/mpi/types.h"

void layer_ops_start(void);

/* Whether libcoll's reduction of such elements is the MPI's; sets *found. Ops of the program,
 * logical ones, MINLOC and MAXLOC are not. */
bool layer_op_find(MPI_Op op, const layer_type_t *type, coll_op_t *found);

#endif
