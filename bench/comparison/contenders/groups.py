"""Programs that train one model, measured round after round in random order. A program is left out
where it cannot do what is asked for. One that fails is dropped with its figures, so that all lists
have the same length and ratios are of the same round."""
import random

from comparison import command, launch, rounds
from comparison.contenders import trainers

TRIAL_ROUNDS = 2  # of the choice between bound and unbound threads


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
    both = []
    try:
        both += [start(False)]
        both += [start(True)]
        best = trial(both, steps)
    except BaseException:
        for peer in both:
            peer.close()
        raise
    return both[best], best == 1


class Group:
    """running: {name: program with close()}. found: the figures of the group, of which `figures`
    are {name: [one per round]}."""

    def __init__(self, title, seed, say, found, figures):
        self.title, self.say = title, say
        self.order = rounds.shuffled(random.Random("%s %s" % (seed, title)))
        self.running, self.figures = {}, figures
        self.found = {**found, figures: {}, "failures": {}, "left_out": {}}

    def start_one(self, name, start, *how):
        """What start(*how) returns; None where it does not start."""
        self.say("%s: starting %s" % (self.title, name))
        try:
            return start(*how)
        except trainers.Unavailable as reason:
            self.found["left_out"][name] = str(reason)
        except launch.Failure as failure:
            self.found["failures"][name] = str(failure)
        return None

    def add(self, name, program):
        """A name is marked where it is taken: two interpreters with the same release."""
        while name in self.running:
            name += "'"
        self.running[name] = program
        return name

    def drop(self, name, failure):
        self.found["failures"][name] = str(failure)
        self.found[self.figures].pop(name, None)
        self.running.pop(name).close()

    def start(self):
        raise NotImplementedError

    def measure(self, name):
        """The figure of one program in a round."""
        raise NotImplementedError

    def one_round(self, number, progress):
        for name, figure in rounds.take_turns(self.running, self.order, self.measure, self.drop):
            self.found[self.figures].setdefault(name, []).append(figure)
        progress.step("%s, round %d" % (self.title, number + 1))

    def close(self):
        for program in self.running.values():
            program.close()

    def run(self, count, progress):
        """The figures; those so far after Ctrl-C, with "interrupted"."""
        def one_step(number):
            if number == 0:
                self.start()
            else:
                self.one_round(number - 1, progress)
        try:
            if rounds.repeat(count + 1, one_step):
                self.found["interrupted"] = True
        finally:
            self.close()
        return self.found


def failure_lines(found):
    for name, reason in found["failures"].items():
        yield "  %s failed: %s" % (name, reason)
    for name, reason in found.get("left_out", {}).items():
        yield "  %s left out: %s" % (name, reason)


def exit_code(groups, passes=lambda group: True):
    """Of groups that were measured."""
    if any(group.get("interrupted") for group in groups):
        return command.INTERRUPTED
    if any(group["failures"] for group in groups):
        return command.FAILED
    return 0 if all(map(passes, groups)) else command.LOST
