/* Compares what two ranks were given. */
#include "comm/agreed.h"

#include "base/status.h"

coll_status_t comm_agreed_compare(int rank, int first, const comm_agreed_t *ones, int other,
                                  const comm_agreed_t *others) {
  if (ones->layout != others->layout) {
    return base_fail(COLL_ERROR_MISMATCH,
                     "rank %d: COLL_TOPO_FILE places the ranks of rank %d and of rank %d "
                     "differently: give all ranks the same file, COLL_TOPO_MAP and COLL_TOPO_PACED",
                     rank, first, other);
  }
  if (ones->algorithms != others->algorithms) {
    return base_fail(COLL_ERROR_MISMATCH,
                     "rank %d: rank %d and rank %d force different algorithms: set COLL_ALGO, or "
                     "the config's field, alike on all ranks",
                     rank, first, other);
  }
  if (ones->reproducible == others->reproducible) return COLL_OK;
  return base_fail(COLL_ERROR_MISMATCH,
                   "rank %d: rank %d creates the communicator with reproducible %d, but rank %d "
                   "with %d: set COLL_REPRODUCIBLE, or the config's field, alike on all ranks",
                   rank, first, (int)ones->reproducible, other, (int)others->reproducible);
}
