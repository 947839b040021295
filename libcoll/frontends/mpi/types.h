/*
 * What the layer knows of a datatype.
 */
#ifndef FRONTENDS_MPI_TYPES_H
#define FRONTENDS_MPI_TYPES_H

#include <coll.h>
#include <stddef.h>

#include "frontends/mpi/abi.h"

/* Sets of ops that a type can be reduced with. */
enum { LAYER_NO_OPS = 0, LAYER_INTEGER = 1, LAYER_FLOAT = 2, LAYER_COMPLEX = 4, LAYER_BITS = 8 };

typedef struct layer_type {
  size_t size;      /* bytes of data of one element */
  ptrdiff_t extent; /* bytes from one element to the next */
  bool is_predefined;
  bool is_contiguous; /* elements are size bytes each, one behind the other, from address 0 on */
  unsigned ops;       /* the sets that the layer reduces it with; 0 for any derived type */
  coll_dtype_t dtype; /* if ops is not 0 */
  int parts;          /* of that dtype in one element: 2 for complex numbers */
} layer_type_t;

void layer_types_start(void);
void layer_types_end(void);

/* False: it is MPI_DATATYPE_NULL, or the MPI does not describe it, which are errors of the program.
 * Neither the type's size nor a lack of memory makes it false: a call with that type would pass on
 * this rank alone. */
bool layer_type_find(MPI_Datatype handle, layer_type_t *found);

#endif
