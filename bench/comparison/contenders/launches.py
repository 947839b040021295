"""What bench/parallel-compare measures: gpt train, launched in a layout for some seconds, and
PyTorch, which stays alive, for as long. The speed of a row in a round is that of its median step.
The figures of a group:

    {"model": "mini:16x256", "parameters": 3.3e6, "layouts": {NAME: "2x1 --tp 2"},
     "attainable": {NAME: share of the time that the bubble leaves},
     "tokens_per_s": {NAME: [one per round]}, "failures": {NAME: reason},
     "left_out": {NAME: reason}}"""
import collections
import statistics
import time

from comparison import launch
from comparison.contenders import groups, layouts, trainers

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
        self.command = layouts.command(build, layout, layouts.model_options(row, data))

    def launch(self, how, seconds_max):
        """(setup, steps) of the log; how: when the run ends."""
        return layouts.logged([*self.command, *how],
                              lambda line: layouts.run(line, seconds_max))

    def warm_up(self):
        """The model's sizes."""
        setup, _ = self.launch(["--steps", str(WARM_UP_STEPS)],
                               layouts.START_SECONDS_MAX + trainers.ANSWER_SECONDS_MAX)
        return setup["model"]

    def median_ms(self, seconds):
        for attempt in range(ATTEMPTS_MAX):
            planned = seconds * 2 ** attempt
            _, steps = self.launch(["--seconds", "%g" % planned],
                                   layouts.START_SECONDS_MAX + 5 * planned)
            timed = [step["ms"] for step in steps[UNTIMED_STEPS:]]
            if timed:
                return statistics.median(timed)
        raise launch.Failure("no step was timed in %g s: raise --time" % planned)

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


class Group(groups.Group):
    def __init__(self, options, row, effort, say):
        self.options, self.row, self.effort = options, row, effort
        super().__init__(trainers.row_name(row), effort.seed, say, {
            "model": trainers.row_name(row), "parameters": None, "layouts": {}, "attainable": {}},
            "tokens_per_s")

    def start_layout(self, name, text):
        """The model's sizes, or None if they are not needed."""
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

    def start_torch(self, python, model, ranks):
        launcher = launch.collrun(self.options.build, ranks) if ranks > 1 else ()
        peer, _ = groups.keep_faster(lambda bound: trainers.start_torch(
            python, self.options.torch_program, model, self.row, "float32", False, CORES // ranks,
            bound, launcher), TRIAL_STEPS)
        self.add("PyTorch %s, %s" % (peer.setup["version"].split("+")[0],
                                     "DDP2" if ranks > 1 else "one rank"), Torch(peer))

    def start(self):
        model = None
        for name, text in self.options.rows.items():
            model = self.start_one(name, self.start_layout, name, text) or model
        if model is None:
            return
        model = {name: size for name, size in model.items() if name != "parameters"}
        for python in self.options.python:
            for ranks in (1, CORES):
                self.start_one("%s, %d rank%s" % (python, ranks, "s" if ranks > 1 else ""),
                               self.start_torch, python, model, ranks)

    def measure(self, name):
        tokens = self.row.batch * self.row.length
        return 1e3 * tokens / self.running[name].median_ms(self.effort.seconds)

    def run(self, progress):
        return super().run(self.effort.rounds, progress)
