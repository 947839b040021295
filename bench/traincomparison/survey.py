"""The rounds of bench/train-compare. A group is a row in one precision: its programs are all alive,
and each round times every one of them, in random order. Their times in ms are kept per round:

    {"row": "gpt2:4x64", "precision": "bf16", "times_ms": {NAME: [one per round]},
     "limit_ms": [one per round], "bound": {NAME: bool}, "failures": {NAME: reason},
     "left_out": {NAME: reason}}

A program is left out where it cannot do what the group is about. One that fails is dropped with its
times, so that all lists have the same length and ratios are of the same round."""
import collections
import contextlib
import random
import statistics
import tempfile

from comparison.contenders import collectives as configurations
from comparison.contenders import llmc, trainers as peers

OURS, OURS_FLOAT32 = "libtrain", "libtrain float32"
KINDS = ("eager", "compiled")
TRIAL_ROUNDS = 2  # of the choice between bound and unbound threads

# seed: of the order. kinds: of PyTorch, a list.
Effort = collections.namedtuple("Effort", "rounds steps threads kinds seed")


def trial(both, steps):
    """Which of two programs takes less time, and ends the other one."""
    times = [[], []]
    for _ in range(TRIAL_ROUNDS):
        for peer, list_of in zip(both, times):
            list_of += peer.steps(steps)
    best = 0 if min(times[0]) <= min(times[1]) else 1
    both[1 - best].close()
    return best


def keep_faster(start, steps):
    """Starts a program with unbound and bound threads by start(bound), and returns the one whose
    steps are faster and whether it is bound."""
    with contextlib.ExitStack() as stack:
        both = []
        for bound in (False, True):
            both.append(start(bound))
            stack.callback(both[-1].close)
        best = trial(both, steps)
        stack.pop_all()
    return both[best], best == 1


class Group:
    def __init__(self, options, row, precision, effort, say):
        self.options, self.row, self.precision, self.effort = options, row, precision, effort
        self.say, self.random = say, random.Random("%s %s %s" % (effort.seed, row, precision))
        self.running, self.files = {}, contextlib.ExitStack()
        self.found = {"row": peers.row_name(row), "precision": precision, "times_ms": {},
                      "limit_ms": [], "bound": {}, "failures": {}, "left_out": {}}

    # ---- start -----------------------------------------------------------------------------------

    def start_torch(self, python, kind):
        how = (python, self.options.torch_program, self.running[OURS].setup["config"], self.row,
               self.precision, kind == "compiled", self.effort.threads)
        peer, bound = keep_faster(lambda bound: peers.start_torch(*how, bound),
                                  self.effort.steps)
        name = "PyTorch %s %s" % (peer.setup["version"].split("+")[0], kind)
        while name in self.running:
            name += "'"  # two interpreters with the same release
        self.running[name], self.found["bound"][name] = peer, bound

    def start_llmc(self):
        program = self.options.llmc
        reason = program.reason_to_leave_out(self.row, self.precision)
        if reason:
            raise peers.Unavailable(reason)
        folder = self.files.enter_context(tempfile.TemporaryDirectory())
        llmc.write_inputs(folder, self.options.build, self.row.preset, self.row.length)
        self.running[llmc.NAME], self.found["bound"][llmc.NAME] = keep_faster(
            lambda bound: llmc.Peer(program.path, folder, self.effort.threads, bound),
            self.effort.steps)

    def start_peer(self, name, start, *how):
        self.say("%s %s: starting %s" % (self.found["row"], self.precision, name))
        try:
            start(*how)
        except peers.Unavailable as reason:
            self.found["left_out"][name] = str(reason)
        except configurations.Failure as failure:
            self.found["failures"][name] = str(failure)

    def start(self):
        def start_ours(name, precision):
            self.running[name] = peers.start_libtrain(self.options.build, self.row, precision,
                                                      self.effort.threads)
        start_ours(OURS, self.precision)
        if self.precision != "float32":
            start_ours(OURS_FLOAT32, "float32")
        for python in self.options.python:
            for kind in self.effort.kinds:
                self.start_peer("%s %s" % (python, kind), self.start_torch, python, kind)
        if self.options.llmc:
            self.start_peer(llmc.NAME, self.start_llmc)

    def close(self):
        for peer in self.running.values():
            peer.close()
        self.files.close()

    # ---- rounds ----------------------------------------------------------------------------------

    def drop(self, name, failure):
        self.found["failures"][name] = str(failure)
        self.found["times_ms"].pop(name, None)
        self.running.pop(name).close()
        if name == OURS:
            raise failure

    def round(self):
        times, limit_ms = {}, None
        for name in self.random.sample(list(self.running), len(self.running)):
            try:
                times[name] = statistics.median(self.running[name].steps(self.effort.steps))
                if name == OURS:
                    limit_ms = self.running[name].limit()
            except configurations.Failure as failure:
                self.drop(name, failure)
        for name, ms in times.items():
            self.found["times_ms"].setdefault(name, []).append(ms)
        self.found["limit_ms"].append(limit_ms)

    def run(self, progress):
        """The figures; those so far after Ctrl-C, with "interrupted"."""
        try:
            self.start()
            for number in range(self.effort.rounds):
                self.round()
                progress.step("%s %s, round %d of %d" % (
                    self.found["row"], self.precision, number + 1, self.effort.rounds), 1)
        except KeyboardInterrupt:
            self.found["interrupted"] = True
        except configurations.Failure as failure:
            self.found["failures"].setdefault(OURS, str(failure))
        finally:
            self.close()
        return self.found
