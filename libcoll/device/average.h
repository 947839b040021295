/*
 * The average of n floats: each is multiplied by the largest power of two that is at most 1/n, they
 * are summed, and the sum is divided by n times that power. No sum exceeds the largest operand, so
 * it overflows only where rounding carries it there; and the multiplications are exact but for
 * subnormal results. (Multiplying by 1/n itself would round every operand.)
 */
#ifndef DEVICE_AVERAGE_H
#define DEVICE_AVERAGE_H

#ifndef AVERAGE_FUNCTION /* device code defines it, for the kernel of device/cuda */
#define AVERAGE_FUNCTION static inline
#endif

typedef struct device_average {
  float weight;  /* of each operand */
  float divisor; /* of the sum of the weighted operands: in (1/2, 1] */
} device_average_t;

/* n >= 1 and a float32 each: the divisor is exact. */
AVERAGE_FUNCTION device_average_t device_average_of(int n) {
  int power = 1;
  while (power < n) power *= 2;
  float weight = 1 / (float)power;
  return (device_average_t){weight, (float)n * weight};
}

#endif
