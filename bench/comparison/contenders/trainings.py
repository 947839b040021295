"""What bench/train-compare measures: training steps of a model in one precision, by programs that
stay alive. The figures of a group:

    {"row": "gpt2:4x64", "precision": "bf16", "times_ms": {NAME: [one per round]},
     "limit_ms": [one per round], "bound": {NAME: bool}, "failures": {NAME: reason},
     "left_out": {NAME: reason}}"""
import collections
import contextlib
import statistics
import tempfile

from comparison import launch
from comparison.contenders import groups, llmc, trainers

OURS, OURS_FLOAT32 = "libtrain", "libtrain float32"
KINDS = ("eager", "compiled")

# seed: of the order. kinds: of PyTorch, a list.
Effort = collections.namedtuple("Effort", "rounds steps threads kinds seed")


class Group(groups.Group):
    def __init__(self, options, row, precision, effort, say):
        self.options, self.row, self.precision, self.effort = options, row, precision, effort
        self.files = contextlib.ExitStack()
        super().__init__("%s %s" % (trainers.row_name(row), precision), effort.seed, say, {
            "row": trainers.row_name(row), "precision": precision, "limit_ms": [], "bound": {}},
            "times_ms")

    def start_torch(self, python, kind):
        how = (python, self.options.torch_program, self.running[OURS].setup["config"], self.row,
               self.precision, kind == "compiled", self.effort.threads)
        peer, bound = groups.keep_faster(lambda bound: trainers.start_torch(*how, bound),
                                         self.effort.steps)
        name = self.add("PyTorch %s %s" % (peer.setup["version"].split("+")[0], kind), peer)
        self.found["bound"][name] = bound

    def start_llmc(self):
        program = self.options.llmc
        reason = program.reason_to_leave_out(self.row, self.precision)
        if reason:
            raise trainers.Unavailable(reason)
        folder = self.files.enter_context(tempfile.TemporaryDirectory())
        llmc.write_inputs(folder, self.options.build, self.row.preset, self.row.length)
        self.running[llmc.NAME], self.found["bound"][llmc.NAME] = groups.keep_faster(
            lambda bound: llmc.Peer(program.path, folder, self.effort.threads, bound),
            self.effort.steps)

    def start(self):
        for name, precision in ((OURS, self.precision), (OURS_FLOAT32, "float32")):
            if name == OURS or self.precision != precision:
                self.running[name] = trainers.start_libtrain(self.options.build, self.row,
                                                             precision, self.effort.threads)
        for python in self.options.python:
            for kind in self.effort.kinds:
                self.start_one("%s %s" % (python, kind), self.start_torch, python, kind)
        if self.options.llmc:
            self.start_one(llmc.NAME, self.start_llmc)

    def drop(self, name, failure):
        super().drop(name, failure)
        if name == OURS:
            raise failure

    def measure(self, name):
        times_ms = statistics.median(self.running[name].steps(self.effort.steps))
        if name == OURS:
            self.limit_ms = self.running[name].limit()
        return times_ms

    def one_round(self, number, progress):
        super().one_round(number, progress)
        self.found["limit_ms"].append(self.limit_ms)

    def close(self):
        super().close()
        self.files.close()

    def run(self, progress):
        try:
            return super().run(self.effort.rounds, progress)
        except launch.Failure as failure:
            self.found["failures"].setdefault(OURS, str(failure))
            return self.found
