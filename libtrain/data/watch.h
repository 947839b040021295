/*
 * Who looks on while a long piece of work goes on.
 */
#ifndef LIBTRAIN_DATA_WATCH_H
#define LIBTRAIN_DATA_WATCH_H

/* All zero: nobody. */
typedef struct train_watch {
  void (*advance)(void *context, double done, double total); /* often; must be cheap */
  void *context;
} train_watch_t;

static inline void train_watch_advance(const train_watch_t *watch, double done, double total) {
  if (watch->advance != 0) watch->advance(watch->context, done, total);
}

#endif
