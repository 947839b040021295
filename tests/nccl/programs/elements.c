/*
 * Elements of all types, and their reductions on the host.
 */
#include "elements.h"

#include <stdint.h>
#include <string.h>

static const ncclDataType_t types[] = {ncclFloat32, ncclInt8,    ncclUint8,
                                       ncclInt32,   ncclUint32,  ncclInt64,
                                       ncclUint64,  ncclFloat64, ncclBfloat16};

int element_types(void) {
  return (int)(sizeof types / sizeof types[0]);
}

ncclDataType_t element_type(int number) {
  return types[number];
}

size_t element_bytes(ncclDataType_t dtype) {
  switch (dtype) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

static bool is_float(ncclDataType_t dtype) {
  return dtype == ncclFloat32 || dtype == ncclFloat64 || dtype == ncclBfloat16;
}

/* Products and averages need more digits than bfloat16 has. */
bool element_reduces(ncclDataType_t dtype, ncclRedOp_t op) {
  return dtype != ncclBfloat16 || (op != ncclProd && op != ncclAvg);
}

int element_value(int rank, size_t index) {
  return (int)(((size_t)rank + index) % 3) + 1;
}

void element_store(void *buffer, ncclDataType_t dtype, size_t index, double value) {
  int64_t integer = (int64_t)value;
  float single = (float)value;
  char *at = (char *)buffer + index * element_bytes(dtype);
  switch (dtype) {
    case ncclFloat32: memcpy(at, &single, 4); break;
    case ncclFloat64: memcpy(at, &value, 8); break;
    case ncclBfloat16: memcpy(at, (char *)&single + 2, 2); break;
    default: memcpy(at, &integer, element_bytes(dtype)); break; /* little endian */
  }
}

double element_load(const void *buffer, ncclDataType_t dtype, size_t index) {
  const char *at = (const char *)buffer + index * element_bytes(dtype);
  float single = 0.0f;
  double value;
  int64_t integer = 0;
  switch (dtype) {
    case ncclFloat32: memcpy(&single, at, 4); return (double)single;
    case ncclBfloat16: memcpy((char *)&single + 2, at, 2); return (double)single;
    case ncclFloat64: memcpy(&value, at, 8); return value;
    case ncclInt8: return (double)(int8_t)*at;
    case ncclUint8: return (double)(uint8_t)*at;
    default: memcpy(&integer, at, element_bytes(dtype)); return (double)integer;
  }
}

static double reduced(size_t index, ncclDataType_t dtype, ncclRedOp_t op, int ranks) {
  double result = element_value(0, index);
  for (int rank = 1; rank < ranks; rank++) {
    double value = element_value(rank, index);
    switch (op) {
      case ncclProd: result *= value; break;
      case ncclMax: result = value > result ? value : result; break;
      case ncclMin: result = value < result ? value : result; break;
      default: result += value; break;
    }
  }
  if (op != ncclAvg) return result;
  return is_float(dtype) ? result / ranks : (double)((int)result / ranks);
}

bool element_is(const void *buffer, ncclDataType_t dtype, size_t index, const element_t *from,
                ncclRedOp_t op, int ranks) {
  char expected[8] = {0};
  double value = from->rank == ELEMENT_ALL_RANKS ? reduced(from->index, dtype, op, ranks)
                                                 : element_value(from->rank, from->index);
  element_store(expected, dtype, 0, value);
  double difference = element_load(buffer, dtype, index) - element_load(expected, dtype, 0);
  double allowed = op == ncclAvg && is_float(dtype) ? 1e-6 * value : 0.0; /* of 1 / ranks */
  return difference <= allowed && -difference <= allowed;
}
