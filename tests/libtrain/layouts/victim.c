/* The counts and notes of the victim (victim.h), in the process that is to be killed. */
#include "libtrain/layouts/victim.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

typedef struct note {
  _Atomic uint64_t died_ns;
} note_t;

/* Of this process. */
static int products_left = -1; /* -1: it survives */
static const char *counted_after;

void victim_die(int products, const char *after) {
  products_left = products;
  counted_after = after;
}

uint64_t victim_died_ns(void) {
  const note_t *note = harness_board();
  return atomic_load(&note->died_ns);
}

static void count_product(void) {
  note_t *note = harness_board();
  if (products_left < 0) return;
  if (counted_after != NULL && access(counted_after, F_OK) != 0) return;
  if (products_left-- > 0) return;
  atomic_store(&note->died_ns, base_clock_now_ns());
  raise(SIGKILL);
}

static void linear_forward(const train_exec_t *exec, const train_linear_t *linear, const void *in,
                           int rows, const void *weight, const void *bias, const void *residual,
                           void *out, void *active) {
  count_product();
  train_ops_host.linear_forward(exec, linear, in, rows, weight, bias, residual, out, active);
}

static void linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                            const void *d_out, const void *in, int rows, const void *weight,
                            const void *hidden, bool overwrite, void *d_in, float *d_weight,
                            float *d_bias) {
  count_product();
  train_ops_host.linear_backward(exec, linear, d_out, in, rows, weight, hidden, overwrite, d_in,
                                 d_weight, d_bias);
}

train_ops_t victim_ops(void) {
  train_ops_t ops = train_ops_host;
  ops.linear_forward = linear_forward;
  ops.linear_backward = linear_backward;
  return ops;
}
