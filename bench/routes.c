/* Every rank knows its own routes (coll_comm_route); an allgather brings them together. */
#include "bench/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/collectives.h"

#define NAME_BYTES 8 /* of a route; a longer name is cut */

static coll_status_t gather(coll_comm_t comm, int rank, int ranks, char *names) {
  size_t row = (size_t)ranks * NAME_BYTES;
  char *own = names + (size_t)rank * row;
  for (int peer = 0; peer < ranks; peer++) {
    const char *route;
    COLL_TRY(bench_take_error(comm, coll_comm_route(comm, peer, &route)));
    snprintf(own + (size_t)peer * NAME_BYTES, NAME_BYTES, "%s", route);
  }
  return bench_take_error(comm, coll_allgather(own, names, row, COLL_INT8, comm, NULL));
}

static void print(const char *names, int ranks, FILE *out) {
  fprintf(out, "# route from rank (row) to rank (column)\n#     ");
  for (int to = 0; to < ranks; to++) fprintf(out, " %*d", NAME_BYTES - 1, to);
  for (int from = 0; from < ranks; from++) {
    fprintf(out, "\n# %4d", from);
    for (int to = 0; to < ranks; to++) {
      fprintf(out, " %*s", NAME_BYTES - 1,
              names + ((size_t)from * (size_t)ranks + (size_t)to) * NAME_BYTES);
    }
  }
  fprintf(out, "\n#\n");
  fflush(out);
}

coll_status_t bench_routes_show(coll_comm_t comm, FILE *out) {
  int rank, ranks;
  char *names = NULL;
  COLL_TRY(bench_take_error(comm, coll_comm_rank(comm, &rank)));
  COLL_TRY(bench_take_error(comm, coll_comm_size(comm, &ranks)));
  COLL_TRY(base_alloc((size_t)ranks * (size_t)ranks, NAME_BYTES, "routes", (void **)&names));
  coll_status_t status = gather(comm, rank, ranks, names);
  if (status == COLL_OK && rank == 0) print(names, ranks, out);
  free(names);
  return status;
}
