/* The bar is redrawn in place with a carriage return and clear-to-end-of-line. */
#include "base/progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define BAR_CELLS 28
#define LINE_MAX 512
#define REDRAW_NS 100000000u
#define PLAIN_EVERY_NS 10000000000u

void base_progress_begin(base_progress_t *progress, const char *label, double total) {
  *progress = (base_progress_t){.label = label,
                                .total = total,
                                .terminal = isatty(STDERR_FILENO) == 1,
                                .started_ns = base_clock_now_ns(),
                                .plain_every_ns = PLAIN_EVERY_NS};
}

/* Width of the terminal: a line that wraps could not be redrawn. */
static int columns(void) {
  struct winsize size;
  bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : LINE_MAX;
}

static void draw(base_progress_t *progress, double done, const char *note, uint64_t now_ns) {
  double fraction = done / progress->total;
  fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
  double elapsed_s = (double)(now_ns - progress->started_ns) * 1e-9;
  double left_s = fraction > 0 ? elapsed_s * (1 - fraction) / fraction : 0;
  if (progress->terminal) {
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) bar[i] = i < (int)(fraction * BAR_CELLS) ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    char line[LINE_MAX];
    snprintf(line, sizeof line, "%s [%s] %3.0f%%  %.0fs, %.0fs left  %s", progress->label, bar,
             fraction * 100, elapsed_s, left_s, note);
    fprintf(stderr, "\r%.*s\x1b[K", columns() - 1, line);
  } else {
    fprintf(stderr, "%s %3.0f%%  %.0fs  %s\n", progress->label, fraction * 100, elapsed_s, note);
  }
  fflush(stderr);
  progress->shown = true;
  progress->drawn_ns = now_ns;
}

void base_progress_update(base_progress_t *progress, double done, const char *note) {
  uint64_t now_ns = base_clock_now_ns();
  uint64_t every_ns = progress->terminal ? REDRAW_NS : progress->plain_every_ns;
  if (progress->shown && now_ns - progress->drawn_ns < every_ns) return;
  draw(progress, done, note, now_ns);
}

void base_progress_end(base_progress_t *progress, double done, const char *note) {
  draw(progress, done, note, base_clock_now_ns());
  if (progress->terminal) fputc('\n', stderr);
}
