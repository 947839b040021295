/*
 * What of the handshake depends on libsodium. handshake_sodium.c has it, handshake_local.c is for
 * builds without libsodium.
 */
#ifndef BASE_NET_HANDSHAKE_PROOF_H
#define BASE_NET_HANDSHAKE_PROOF_H

#include "base/net/handshake.h"

/* Sets handshake->own. False: there is no random number. */
bool base_handshake_draw(base_handshake_t *handshake);

/* Makes the listener's proof, or the caller's. handshake->own and peer are set. */
void base_handshake_prove(const base_handshake_t *handshake, bool of_listener,
                          uint8_t proof[BASE_SECRET_BYTES]);
bool base_handshake_is_proven(const base_handshake_t *handshake, bool of_listener,
                              const uint8_t proof[BASE_SECRET_BYTES]);

/* Of the protocol of this version; the last digit changes with frames, records and notes. */
#define BASE_HANDSHAKE_MAGIC "colla002"
#define BASE_HANDSHAKE_MAGIC_BYTES 8

#endif
