/*
 * Defaults for the slots of ops.h: what a transport that cannot do a thing has in its table, so
 * that no caller has to test a slot for NULL. transport_unsupported is a table of all of them.
 */
#ifndef TRANSPORT_DEFAULTS_H
#define TRANSPORT_DEFAULTS_H

#include "transport/ops.h"

transport_port_t *transport_default_port(transport_t *t, int peer, int channel);
int transport_default_used_channel(transport_t *t, int peer, int channel);
coll_status_t transport_default_send(transport_port_t *port, const void *data,
                                     const transport_head_t *head, bool *done);
coll_status_t transport_default_recv(transport_port_t *port, void *data, size_t capacity,
                                     transport_head_t *head, bool *done);
void transport_default_release(transport_t *t);
void transport_default_cancel(transport_t *t);
bool transport_default_drained(transport_port_t *port);
coll_status_t transport_default_peek(transport_port_t *port, const void **data,
                                     transport_head_t *head, bool *done);
coll_status_t transport_default_take(transport_port_t *port);
coll_status_t transport_default_signal(transport_port_t *port, const flight_call_t *call,
                                       bool *done);
coll_status_t transport_default_wait(transport_port_t *port, flight_call_t *call, bool *arrived);
coll_status_t transport_default_address(transport_t *t, const void *ptr, size_t bytes,
                                        transport_address_t *address);
coll_status_t transport_default_mcast_send(transport_t *t, const void *data,
                                           const transport_head_t *head, bool *done);
coll_status_t transport_default_mcast_peek(transport_t *t, int peer, const void **data,
                                           transport_head_t *head, bool *done);
coll_status_t transport_default_mcast_take(transport_t *t, int peer);
bool transport_default_signaled(transport_port_t *port);
bool transport_default_pending(transport_port_t *port, flight_call_t *call);
transport_yield_hint_t transport_default_yield_hint(transport_t *t, uint64_t progress,
                                                    uint64_t missing);
void transport_default_yield(transport_t *t);
coll_status_t transport_default_map(transport_t *t, int peer, const transport_address_t *address,
                                    void **ptr);
bool transport_default_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]);
bool transport_default_peer_gets(transport_t *t, int peer);
coll_status_t transport_default_get(transport_t *t, int peer, void *dst, uint64_t address,
                                    size_t bytes, bool *done);
coll_status_t transport_default_pass_descriptor(transport_t *t, int peer, uint64_t tag,
                                                int descriptor, bool *done);
coll_status_t transport_default_take_descriptor(transport_t *t, int peer, uint64_t tag,
                                                int *descriptor, bool *done);
void transport_default_scratch(transport_t *t, int rank, void **ptr, size_t *bytes);
void transport_default_arm(transport_t *t);
void transport_default_sleep(transport_t *t, uint64_t timeout_ns);
void transport_default_disarm(transport_t *t);
const flight_recorder_t *transport_default_recorder(transport_t *t, int rank);
void transport_default_publish(transport_t *t);
transport_peer_state_t transport_default_peer_state(transport_t *t, int peer);
const char *transport_default_route(const transport_t *t, int peer);
void transport_default_waits_for(transport_t *t, int peer);
void transport_default_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]);
void transport_default_abort(transport_t *t, const transport_reason_t *reason);
bool transport_default_aborted(transport_t *t, transport_reason_t *reason);
void transport_default_destroy(transport_t *t);

#endif
