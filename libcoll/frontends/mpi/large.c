/*
 * The element is sent as what it is and received as MPI_PACKED, or the other way round, by this
 * process itself: messages of derived types may be larger than 2 GiB in every MPI, and not all have
 * the MPI_Pack_c of MPI 4.
 */
#include "frontends/mpi/large.h"

#include <pthread.h>

#define UNIT_BYTES ((size_t)1 << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one message at a time */
static bool has_self;
static MPI_Comm self; /* of the layer alone, so that the program cannot receive its messages */

/* `bytes` bytes as one element. */
static bool make_packed(size_t bytes, MPI_Datatype *packed) {
  MPI_Datatype unit;
  size_t units = bytes / UNIT_BYTES;
  const int lengths[] = {(int)units, (int)(bytes % UNIT_BYTES)};
  const MPI_Aint displs[] = {0, (MPI_Aint)(units * UNIT_BYTES)};
  if (pmpi.Type_contiguous((int)UNIT_BYTES, MPI_PACKED, &unit) != MPI_SUCCESS) return false;
  const MPI_Datatype types[] = {unit, MPI_PACKED};
  bool is_made = pmpi.Type_create_struct(2, lengths, displs, types, packed) == MPI_SUCCESS;
  pmpi.Type_free(&unit);
  return is_made && pmpi.Type_commit(packed) == MPI_SUCCESS;
}

static bool exchange(const char *from, MPI_Datatype from_type, char *to, MPI_Datatype to_type) {
  pthread_mutex_lock(&lock);
  if (!has_self) has_self = pmpi.Comm_dup(MPI_COMM_SELF, &self) == MPI_SUCCESS;
  bool is_done = has_self && pmpi.Sendrecv(from, 1, from_type, 0, 0, to, 1, to_type, 0, 0, self,
                                           MPI_STATUS_IGNORE) == MPI_SUCCESS;
  pthread_mutex_unlock(&lock);
  return is_done;
}

bool layer_large_move(char *data, MPI_Datatype type, char *packed, size_t bytes, bool to_packed) {
  MPI_Datatype packed_type;
  if (!make_packed(bytes, &packed_type)) return false;
  bool is_moved = to_packed ? exchange(data, type, packed, packed_type)
                            : exchange(packed, packed_type, data, type);
  pmpi.Type_free(&packed_type);
  return is_moved;
}

void layer_large_end(void) {
  if (has_self) pmpi.Comm_free(&self);
  has_self = false;
}
