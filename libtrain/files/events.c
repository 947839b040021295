/*
 * A message is built in a growing buffer, framed with its length and two masked checksums, and
 * written. A protocol-buffer field is a key (field number and wire type) and a value; an embedded
 * message is its length and its bytes.
 */
#include "libtrain/files/events.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

/* Wire types, and the field numbers of event.proto and summary.proto. */
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

#define CASTAGNOLI 0x82f63b78u /* the polynomial, bits reversed */
#define MASK_DELTA 0xa282ead8u

#define TAG_BYTES 96
#define VALUE_BYTES (TAG_BYTES + 16) /* maximum size of an encoded Value */
#define EVENT_HEADER_BYTES 64        /* maximum size of the other fields of an event */

struct train_events {
  FILE *file;
  uint8_t *bytes; /* the message being built */
  size_t capacity;
  char path[PATH_MAX];
};

typedef struct message {
  uint8_t *bytes;
  size_t count;
} message_t;

/* ---- encoding; the callers have reserved memory ---- */

static void put_varint(message_t *message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message->bytes[message->count++] = (uint8_t)(value | 0x80);
  message->bytes[message->count++] = (uint8_t)value;
}

static void put_fixed(message_t *message, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) message->bytes[message->count++] = (uint8_t)(value >> (8 * i));
}

static void put_key(message_t *message, int field, int wire_type) {
  put_varint(message, (uint64_t)(field << 3 | wire_type));
}

static void put_double(message_t *message, int field, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_key(message, field, WIRE_FIXED64);
  put_fixed(message, bits, 8);
}

static void put_float(message_t *message, int field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_key(message, field, WIRE_FIXED32);
  put_fixed(message, bits, 4);
}

static void put_bytes(message_t *message, int field, const void *bytes, size_t count) {
  put_key(message, field, WIRE_BYTES);
  put_varint(message, count);
  memcpy(message->bytes + message->count, bytes, count);
  message->count += count;
}

static void put_value(message_t *summary, const train_scalar_t *scalar) {
  uint8_t reserved[VALUE_BYTES];
  message_t value = {reserved, 0};
  put_bytes(&value, VALUE_TAG, scalar->tag, strnlen(scalar->tag, TAG_BYTES));
  put_float(&value, VALUE_SIMPLE, (float)scalar->value);
  put_bytes(summary, SUMMARY_VALUE, value.bytes, value.count);
}

static double wall_time_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- framing ---- */

uint32_t train_events_crc(const void *bytes, size_t count) {
  const uint8_t *byte = bytes;
  uint32_t crc = ~0u;
  for (size_t i = 0; i < count; i++) {
    crc ^= byte[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? CASTAGNOLI : 0);
  }
  return ~crc;
}

static uint32_t masked_crc(const void *bytes, size_t count) {
  uint32_t crc = train_events_crc(bytes, count);
  return (crc >> 15 | crc << 17) + MASK_DELTA;
}

static coll_status_t write_record(train_events_t *events, const message_t *message) {
  uint8_t head[12], tail[4];
  message_t header = {head, 0}, trailer = {tail, 0};
  put_fixed(&header, message->count, 8);
  put_fixed(&header, masked_crc(head, 8), 4);
  put_fixed(&trailer, masked_crc(message->bytes, message->count), 4);
  bool wrote = fwrite(head, sizeof head, 1, events->file) == 1 &&
               fwrite(message->bytes, message->count, 1, events->file) == 1 &&
               fwrite(tail, sizeof tail, 1, events->file) == 1 && fflush(events->file) == 0;
  if (wrote) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --tensorboard %s", events->path);
}

coll_status_t train_events_write(train_events_t *events, uint64_t step,
                                 const train_scalar_t *scalars, size_t count) {
  /* The summary is encoded first, behind space reserved for the fields before it. */
  void *bytes = events->bytes;
  size_t reserved = count * VALUE_BYTES;
  COLL_TRY(base_grow(&bytes, &events->capacity, 2 * reserved + EVENT_HEADER_BYTES, 1, "an event"));
  events->bytes = bytes;
  message_t event = {events->bytes, 0},
            summary = {events->bytes + reserved + EVENT_HEADER_BYTES, 0};
  for (size_t i = 0; i < count; i++) put_value(&summary, &scalars[i]);
  put_double(&event, EVENT_WALL_TIME, wall_time_s());
  put_key(&event, EVENT_STEP, WIRE_VARINT);
  put_varint(&event, step);
  put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.count);
  return write_record(events, &event);
}

/* ---- the file ---- */

static coll_status_t create_folder(const char *folder) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", folder); /* a path that is too long fails below */
  for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
    *slash = '\0';
    mkdir(path, 0777);
  }
  struct stat found;
  if (mkdir(path, 0777) == 0 || (stat(path, &found) == 0 && S_ISDIR(found.st_mode))) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create the folder --tensorboard %s", folder);
}

static coll_status_t write_version(train_events_t *events) {
  static const char version[] = "brain.Event:2";
  uint8_t reserved[EVENT_HEADER_BYTES];
  message_t event = {reserved, 0};
  put_double(&event, EVENT_WALL_TIME, wall_time_s());
  put_bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
  return write_record(events, &event);
}

coll_status_t train_events_open(const char *folder, train_events_t **events) {
  void *memory;
  char host[64] = "localhost";
  COLL_TRY(create_folder(folder));
  COLL_TRY(base_alloc(1, sizeof(train_events_t), "the event file", &memory));
  train_events_t *opened = memory;
  gethostname(host, sizeof host - 1);
  snprintf(opened->path, sizeof opened->path, "%s/events.out.tfevents.%010" PRIu64 ".%s.%d.0",
           folder, (uint64_t)wall_time_s(), host, (int)getpid());
  opened->file = fopen(opened->path, "wbe");
  coll_status_t status =
      opened->file != NULL
          ? write_version(opened)
          : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --tensorboard %s", opened->path);
  if (status != COLL_OK) {
    train_events_close(opened);
    return status;
  }
  *events = opened;
  return COLL_OK;
}

void train_events_close(train_events_t *events) {
  if (events == NULL) return;
  if (events->file != NULL) fclose(events->file);
  free(events->bytes);
  free(events);
}
