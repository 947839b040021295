/*
 * The messages of the rendezvous protocol, and transfers with a deadline. Messages are fixed C
 * structures, sent between hosts of one byte order.
 *
 * A rank connects, both sides prove that they know the secret (base/net/handshake.h), and the rank
 * sends a hello and its record. The server replies with a greeting. When all ranks have joined, it
 * sends each an answer with status COLL_OK, followed by all records. The rank connects to its peers
 * and sends a report; a second one if it is cancelled meanwhile. When all reports have arrived, the
 * server sends each rank a second answer, the verdict. If a rank fails or disconnects before that,
 * the next answer that the others receive carries the failure. A rank that is cancelled before it
 * has joined sends another hello, and then its report.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_WIRE_H
#define BOOTSTRAP_RENDEZVOUS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x6c6c6f6362696c32u
#define WIRE_RETRY                                                              \
  0x7972746572696c32u /* in place of WIRE_MAGIC: hung up on purpose, call again \
                       */
/* In place of WIRE_MAGIC in a hello: the rank has not joined, and reports a failure next. */
#define WIRE_GIVES_UP 0x7075736576696732u
#define WIRE_TEXT_BYTES 448

/* From a rank, behind the handshake; its record follows. */
typedef struct wire_hello {
  uint64_t magic; /* WIRE_MAGIC or WIRE_GIVES_UP */
  int32_t rank, size;
  int32_t timeout_ms; /* time that the rank still waits */
  int32_t pid;
  uint64_t record_bytes;
} wire_hello_t;

/* From the server, once it has accepted a hello. */
typedef struct wire_greeting {
  uint64_t magic; /* WIRE_MAGIC or WIRE_RETRY */
  int64_t pid;    /* of the server's process */
} wire_greeting_t;

/* From the server: all have joined (the records follow), or the verdict. */
typedef struct wire_answer {
  uint64_t session;
  int32_t server_rank; /* the rank whose process runs the server; -1: none */
  int32_t failed_rank; /* the rank that caused the failure; -1: none, or not known */
  int32_t status;
  char text[WIRE_TEXT_BYTES]; /* error message if status is not COLL_OK */
} wire_answer_t;

/* From a rank: whether it has made its part of the communicator. */
typedef struct wire_report {
  int32_t status;
  char text[WIRE_TEXT_BYTES]; /* error message if status is not COLL_OK */
} wire_report_t;

/* Move as many of the bytes, starting at *moved, as is possible without blocking, and advance
 * *moved. False: the connection was closed or is broken. */
bool wire_send_some(int fd, const void *data, size_t bytes, size_t *moved);
bool wire_recv_some(int fd, void *data, size_t bytes, size_t *moved);

/* Move all of the bytes. False: the deadline passed, or the connection was closed or is broken. */
bool wire_send(int fd, const void *data, size_t bytes, uint64_t deadline_ns);
bool wire_recv(int fd, void *data, size_t bytes, uint64_t deadline_ns);

#endif
