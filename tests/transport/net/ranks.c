/* The names of the ranks go around by the board. */
#include "transport/net/ranks.h"

#include <string.h>

static void set_rails(net_name_t *name, int rails) {
  name->rails = name->count = (uint8_t)rails;
  for (int i = 0; i < rails; i++) {
    name->addresses[i] =
        (net_address_t){.rail = (uint8_t)i, .bytes = {127, 0, 0, (uint8_t)(i + 1)}};
  }
  name->recovery = NET_RECOVERY_ALL;
}

coll_status_t ranks_join(int rank, int size, void *board, const ranks_net_t *net,
                         transport_t **end) {
  net_name_t *names = board, own[HARNESS_RANKS_MAX];
  net_listener_t listener;
  COLL_TRY(net_listen(&listener, "", &names[rank]));
  if (net->rails > 0) set_rails(&names[rank], net->rails);
  if (net->is_tree) names[rank].mesh_ranks = 0;
  harness_barrier();
  memcpy(own, names, (size_t)size * sizeof *own);
  if (net->of_3 != NULL) own[3] = *net->of_3;
  const base_secret_t secret = {.bytes = {47, 11}};
  const net_group_t group = {.rank = rank,
                             .any_wire = net->wire != NULL || net->has_wire != NULL,
                             .size = size,
                             .names = own,
                             .session = 4711,
                             .secret = &secret,
                             .deadline_ns = kit_deadline_ns(),
                             .wire = net->wire,
                             .has_wire = net->has_wire};
  return transport_net_create(&listener, &group, end);
}
