"""Standard output that is checked, for all programs in Python. What cannot be written ends the
program with a sentence and exit code 1; a closed pipe ends it quietly, with the exit code that a
shell shows for SIGPIPE. base/tool.h is the same for programs in C."""
import atexit
import io
import os
import signal
import sys

FAILED = 1
CLOSED_PIPE = 128 + signal.SIGPIPE


class Lost(SystemExit):
    """Not an Exception, so that no handler of another file's errors takes it for its own."""


class Checked(io.TextIOWrapper):
    """Standard output whose errors are those of no other file."""

    def __init__(self, program, stream):
        super().__init__(stream.detach(), encoding=stream.encoding, errors=stream.errors,
                         line_buffering=stream.line_buffering)
        self.program = program
        self.lost_code = None

    def write(self, text):
        try:
            return super().write(text)
        except OSError as error:
            raise Lost(self.report(error)) from None

    def flush(self):
        try:
            super().flush()
        except OSError as error:
            raise Lost(self.report(error)) from None

    def report(self, error):
        """Says that output is lost, and drops the rest of it. Returns the exit code."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.fileno())
        os.close(nothing)
        self.lost_code = CLOSED_PIPE if isinstance(error, BrokenPipeError) else FAILED
        if self.lost_code == CLOSED_PIPE:
            return CLOSED_PIPE
        print("%s: cannot write to standard output: %s" % (self.program, error.strerror),
              file=sys.stderr)
        return FAILED


def flush_last(stream):
    """The interpreter flushes the stream when it ends, too, and ignores what that raises."""
    try:
        stream.flush()
    except Lost:
        pass
    if stream.lost_code is not None:
        sys.stderr.flush()
        os._exit(stream.lost_code)


def check(program):
    """Call it before anything is printed."""
    if sys.stdout is not None:
        sys.stdout = Checked(program, sys.stdout)
        atexit.register(flush_last, sys.stdout)
