"""A progress line on a terminal: percentage, remaining time, current step."""
import sys
import time


def clock_text(seconds):
    return "%d:%02d" % divmod(round(seconds), 60)


class Progress:
    def __init__(self, seconds):
        self.seconds, self.done = seconds, 0
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, text, seconds=1):
        """A step with an estimated time of `seconds`, or of as many units, is done."""
        self.done += seconds
        if not self.shown:
            return
        left = (time.monotonic() - self.began) / self.done * max(self.seconds - self.done, 0)
        self.show("%3d %%  %s left  %s" % (min(100 * self.done / self.seconds, 100),
                                           clock_text(left), text))

    def show(self, text):
        """In place of the line before."""
        if self.shown:
            sys.stderr.write("\r\x1b[K" + text)
            sys.stderr.flush()

    def say(self, text):
        self.clear()
        print(text, file=sys.stderr)

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\x1b[K")
