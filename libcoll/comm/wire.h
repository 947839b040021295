/*
 * What goes over the rendezvous's connections: fixed structures between hosts of one byte order,
 * and how to send and receive them whole before a deadline.
 */
#ifndef COMM_WIRE_H
#define COMM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x6c6c6f6362696c31u
#define WIRE_TEXT_BYTES 448

/* From a rank; its record follows. The server greets with WIRE_MAGIC whom it will answer; whom it
 * hangs up on instead may call again. */
typedef struct wire_hello {
  uint64_t magic, key;
  int32_t rank, size;
  int32_t timeout_ms; /* that the rank still waits */
  int32_t pid;
  uint64_t record_bytes;
} wire_hello_t;

/* From the server; with status COLL_OK the records follow. */
typedef struct wire_answer {
  uint64_t session;
  int32_t status;
  char text[WIRE_TEXT_BYTES]; /* the sentence, for any other status */
} wire_answer_t;

/* As many of the bytes, from *moved on, as there are or is room for at once. False: the other end
 * hung up. */
bool wire_send_some(int fd, const void *data, size_t bytes, size_t *moved);
bool wire_recv_some(int fd, void *data, size_t bytes, size_t *moved);

/* All of the bytes, or false: the deadline passed or the other end hung up. */
bool wire_send(int fd, const void *data, size_t bytes, uint64_t deadline_ns);
bool wire_recv(int fd, void *data, size_t bytes, uint64_t deadline_ns);

#endif
