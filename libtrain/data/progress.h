/*
 * Progress callback of long operations.
 */
#ifndef LIBTRAIN_DATA_PROGRESS_H
#define LIBTRAIN_DATA_PROGRESS_H

/* All zero: no callback. */
typedef struct train_progress {
  void (*report)(void *context, double done, double total); /* called often; must be cheap */
  void *context;
} train_progress_t;

static inline void train_progress_report(const train_progress_t *progress, double done,
                                         double total) {
  if (progress->report != 0) progress->report(progress->context, done, total);
}

#endif
