"""The rounds of bench/parallel-compare. A group is a model; each round launches gpt train once in
every layout, and lets PyTorch, which stays alive, train as long, in random order. The speed of a
row in a round is that of its median step:

    {"model": "mini:16x256", "parameters": 3.3e6, "layouts": {NAME: "2x1 --tp 2"},
     "attainable": {NAME: share of the time that the bubble leaves},
     "tokens_per_s": {NAME: [one per round]}, "failures": {NAME: reason},
     "left_out": {NAME: reason}}

A row that fails is dropped with its figures, so that all lists have the same length and ratios are
of the same round."""
import collections
import os
import random
import statistics
import tempfile
import time

from comparison.contenders import collectives as configurations
from comparison.contenders import layouts
from comparison.contenders import trainers as peers
from traincomparison import survey as faster

ONE_RANK, DP2 = "one rank", "dp2"
REFERENCES = (ONE_RANK, DP2)
NAIVE_DP2 = "naive dp2"
BASELINES = (ONE_RANK, NAIVE_DP2)  # need not pass
ROWS = {ONE_RANK: "1x2", NAIVE_DP2: "2x1 --naive-dp", DP2: "2x1 --dp 2",
        "tp2": "2x1 --tp 2", "tp2 sp": "2x1 --tp 2 --sp",
        "pp2 1f1b": "2x1 --pp 2 --accumulate 8 --schedule 1f1b",
        "pp2 zb-h1": "2x1 --pp 2 --accumulate 8 --schedule zb-h1",
        "cp2 ring": "2x1 --cp 2 --cp-kind ring", "cp2 ulysses": "2x1 --cp 2 --cp-kind ulysses"}
CORES = 2  # of every row, whatever the machine has

# The first step fills the caches, the second one communicates without overlap (train_step_t).
UNTIMED_STEPS = 2
ATTEMPTS_MAX = 3  # with twice the time, until a step is timed
WARM_UP_STEPS = 3
TRIAL_STEPS = 2  # of the choice between bound and unbound threads

# seconds: of training in a launch. warm_up: an untimed launch of each layout, in which libtrain
# times its libraries for the sizes of that layout. seed: of the order.
Effort = collections.namedtuple("Effort", "rounds seconds warm_up seed")


class Ours:
    """gpt train in a layout."""

    def __init__(self, build, data, row, layout):
        self.build, self.layout, self.row = build, layout, row
        self.options = ["--data", data, "--preset", row.preset, "--batch", str(row.batch),
                        "--context", str(row.length), "--evals", "1", "--eval-tokens",
                        str(row.length)]

    def launch(self, how, seconds_max):
        """(setup, steps) of the log; how: when the run ends."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            layouts.run(self.build, self.layout,
                        [*self.options, *how, "--log", log, "--out",
                         os.path.join(folder, "gpt.ckpt")], seconds_max)
            return layouts.read_log(log)

    def warm_up(self):
        """The model's sizes."""
        setup, _ = self.launch(["--steps", str(WARM_UP_STEPS)],
                               layouts.START_SECONDS_MAX + peers.ANSWER_SECONDS_MAX)
        return setup["model"]

    def median_ms(self, seconds):
        for attempt in range(ATTEMPTS_MAX):
            planned = seconds * 2 ** attempt
            _, steps = self.launch(["--seconds", "%g" % planned],
                                   layouts.START_SECONDS_MAX + 5 * planned)
            timed = [step["ms"] for step in steps[UNTIMED_STEPS:]]
            if timed:
                return statistics.median(timed)
        raise configurations.Failure("no step was timed in %g s: raise --time" % planned)

    def close(self):
        pass


class Torch:
    """PyTorch, as bench/train-compare measures it, without compilation."""

    def __init__(self, peer):
        self.peer = peer

    def median_ms(self, seconds):
        times, began = [], time.monotonic()
        while not times or time.monotonic() < began + seconds:
            times += self.peer.steps(1)
        return statistics.median(times)

    def close(self):
        self.peer.close()


class Group:
    def __init__(self, options, row, effort, say):
        self.options, self.row, self.effort, self.say = options, row, effort, say
        self.random = random.Random("%s %s" % (effort.seed, row))
        self.running = {}
        self.found = {"model": peers.row_name(row), "parameters": None, "layouts": {},
                      "attainable": {}, "tokens_per_s": {}, "failures": {}, "left_out": {}}

    # ---- start -----------------------------------------------------------------------------------

    def start_layout(self, name, text):
        layout = layouts.parse(name, text)
        ours = Ours(self.options.build, self.options.data, self.row, layout)
        self.found["layouts"][name] = text
        self.found["attainable"][name] = layouts.attainable(self.options.build, layout)
        model = None
        if self.effort.warm_up or self.found["parameters"] is None:
            model = ours.warm_up()
            self.found["parameters"] = model["parameters"]
        self.running[name] = ours
        return model

    def start_torch(self, python, sizes, ranks):
        collrun = os.path.join(self.options.build, "tools", "collrun")
        launcher = (collrun, "-n", str(ranks)) if ranks > 1 else ()
        peer, _ = faster.keep_faster(lambda bound: peers.start_torch(
            python, self.options.torch_program, sizes, self.row, "float32", False, CORES // ranks,
            bound, launcher), TRIAL_STEPS)
        name = "PyTorch %s, %s" % (peer.setup["version"].split("+")[0],
                                   "DDP2" if ranks > 1 else "one rank")
        while name in self.running:
            name += "'"  # two interpreters with the same release
        self.running[name] = Torch(peer)

    def start_row(self, name, start, *how):
        self.say("%s: starting %s" % (self.found["model"], name))
        try:
            return start(*how)
        except peers.Unavailable as reason:
            self.found["left_out"][name] = str(reason)
        except configurations.Failure as failure:
            self.found["failures"][name] = str(failure)
        return None

    def start(self):
        sizes = None
        for name, text in self.options.rows.items():
            sizes = self.start_row(name, self.start_layout, name, text) or sizes
        if sizes is None:
            return
        sizes = {name: size for name, size in sizes.items() if name != "parameters"}
        for python in self.options.python:
            for ranks in (1, CORES):
                self.start_row("%s, %d rank%s" % (python, ranks, "s" if ranks > 1 else ""),
                               self.start_torch, python, sizes, ranks)

    # ---- rounds ----------------------------------------------------------------------------------

    def round(self, progress, where):
        tokens, speeds = self.row.batch * self.row.length, {}
        for name in self.random.sample(list(self.running), len(self.running)):
            try:
                speeds[name] = 1e3 * tokens / self.running[name].median_ms(self.effort.seconds)
            except configurations.Failure as failure:
                self.found["failures"][name] = str(failure)
                self.found["tokens_per_s"].pop(name, None)
                self.running.pop(name).close()
            progress.step("%s, %s, %s" % (self.found["model"], where, name), 1)
        for name, speed in speeds.items():
            self.found["tokens_per_s"].setdefault(name, []).append(speed)

    def run(self, progress):
        """The figures; those of complete rounds after Ctrl-C, with "interrupted"."""
        try:
            self.start()
            for number in range(self.effort.rounds):
                self.round(progress, "round %d of %d" % (number + 1, self.effort.rounds))
        except KeyboardInterrupt:
            self.found["interrupted"] = True
        finally:
            for program in self.running.values():
                program.close()
        return self.found
