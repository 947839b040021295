"""How long each step of tools/gpu-check may take, and the calls by which it checks a machine that
is lent for minutes: sets of steps whose budgets fit into the call's time."""
import collections
import contextlib
import time

from comparison.contenders.gpu_steps import FAIL, SKIP, Result

# Of all of a step's rows on one GPU, or on all GPUs. On an H200 they took a half of it at most,
# but for `exact`, which took 48 s.
SECONDS = {"compile": 20, "memory": 35, "exact": 60, "graphs": 10, "abort": 5, "kill": 20,
           "sanitizer": 40, "torch": 50, "processes": 45, "hosts": 25, "registered": 10,
           "speed": 180}
VIRTUAL = 10  # times as much where nothing is quick

Call = collections.namedtuple("Call", "seconds steps has_speed")
CALLS = {"a": Call(240, ("compile", "memory", "exact", "graphs", "abort", "kill", "sanitizer",
                         "torch"), False),
         "b": Call(300, ("processes", "hosts", "registered"), True)}


class Budgets:
    """What the steps have left."""

    def __init__(self, machine):
        self.machine, self.used = machine, {}

    def of(self, name):
        return SECONDS[name] * (VIRTUAL if self.machine.standin else 1)

    def left(self, name, one_gpu):
        return self.of(name) - self.used.get((name, one_gpu), 0)

    @contextlib.contextmanager
    def spent(self, name, one_gpu, kept):
        """Inside, the machine's programs are ended when the step's budget is over, or when only the
        seconds are left that are kept."""
        begin, deadline = time.monotonic(), self.machine.deadline
        self.machine.deadline = min(begin + self.left(name, one_gpu), deadline - kept)
        try:
            yield
        finally:
            self.machine.deadline = deadline
            took = time.monotonic() - begin
            self.used[name, one_gpu] = self.used.get((name, one_gpu), 0) + took

    def run(self, name, function, ranks, one_gpu, kept):
        """The Result of a row of a step."""
        if self.machine.seconds_left() <= kept:
            return Result(SKIP, "not run: no time left")
        if self.left(name, one_gpu) <= 0:
            return Result(SKIP, "not run: the step's %d s are over" % self.of(name))
        with self.spent(name, one_gpu, kept):
            result = function(self.machine, ranks, one_gpu)
            is_over = self.machine.seconds_left() <= 0
        if is_over and result.outcome == FAIL:
            why = ("the step's %d s were over" % self.of(name) if self.left(name, one_gpu) <= 0
                   else "the time of all steps was over")
            return result._replace(note="ended, as %s: %s" % (why, result.note))
        return result
