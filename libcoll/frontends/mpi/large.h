/*
 * One element of a datatype with more data than the int of MPI_Pack can say.
 */
#ifndef FRONTENDS_MPI_LARGE_H
#define FRONTENDS_MPI_LARGE_H

#include <stddef.h>

#include "frontends/mpi/abi.h"

/* Packs the element into `bytes` bytes, its size; with to_packed false, unpacks it. False: the MPI
 * has refused. */
bool layer_large_move(char *data, MPI_Datatype type, char *packed, size_t bytes, bool to_packed);

void layer_large_end(void);

#endif
