"""Tests of bench/compare --net: commands of the launchers, rounds, texts and plot; and with network
namespaces, where the system has them, a measurement without peers. Prints TAP.

    test_net_comparison.py BENCH-FOLDER BUILD-FOLDER

"""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import tap

BUILD = sys.argv.pop(2)
BENCH = sys.argv.pop(1)
ROOT = os.path.dirname(BENCH)
sys.path.insert(0, BENCH)
from comparison import core_latency, figures, launch, net_targets, sizes, table  # noqa: E402
from comparison import progress as progresses  # noqa: E402
from comparison.commands import compare_net  # noqa: E402
from comparison.contenders import collectives, hierarchy, hosts, networks  # noqa: E402
from comparison.contenders.hosts import Link  # noqa: E402


STEADY = core_latency.CoreLatency(lambda: 1.0)


class NoHosts:
    """In place of hosts.Hosts."""
    names, addresses, file = ["h1", "h2", "h3"], ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "/hosts"
    speed_file = "/speed"
    counters = hosts.Traffic(0, 0)

    def __init__(self):
        self.shapes, self.congestion = [], []

    def shape(self, gbit):
        self.shapes.append(gbit)

    def set_congestion(self, name):
        self.congestion.append(name)
        if name == hosts.BBR:
            raise hosts.Unavailable("the kernel has reno alone")

    def traffic(self):
        return self.counters

    @staticmethod
    def end_processes():
        pass


def layout_of(count=2, per_host=2):
    return networks.Layout(NoHosts(), count, per_host)


class Scripted(collectives.Contender):
    """Gives times in turn; a Failure is raised."""

    def __init__(self, name, *launches):
        super().__init__(name, ["launch"], ["program"])
        self.launches, self.checks = list(launches), []

    def run(self, _runner, _collectives, _sizes, _time_ms, checks=None):
        self.checks.append(checks)
        found = self.launches.pop(0)
        if isinstance(found, launch.Failure):
            raise found
        return found


def progress():
    made = progresses.Progress(1)
    made.shown, made.said = False, []
    made.say = made.said.append
    return made


class Commands(unittest.TestCase):
    def words(self, family, setting, layout):
        made = {one.name: one for one in networks.make(ROOT, "/build", layout, [family])}
        one = made["%s/%s" % (family, setting)]
        return " ".join(one.start), one.environment

    def test_launchers_know_hosts_and_agent(self):
        for family, setting, has in (
                ("openmpi", "ucx", "--host h1:2,h2:2 -n 4"), ("mpich", "ofi", "-hosts h1:2,h2:2"),
                ("intelmpi", "tcp", "-hosts h1,h2 -ppn 2 -n 4")):
            words, environment = self.words(family, setting, layout_of())
            self.assertIn(has, words)
            self.assertTrue(words.startswith(os.path.join(BENCH, "peers", "on_host") + " h1 "))
            self.assertEqual(environment["BENCH_HOSTS"], "/hosts")
        words, environment = self.words("gloo", "tcp", layout_of(3, 1))
        self.assertIn("--hosts h1:1,h2:1,h3:1", words)
        self.assertEqual(environment["GLOO_SOCKET_IFNAME"], "eth0")

    def test_more_ranks_than_cores_yield(self):
        many = layout_of(3, len(launch.own_cores()) + 1)
        self.assertIn("mpi_yield_when_idle 1", self.words("openmpi", "tcp", many)[0])
        self.assertEqual(self.words("intelmpi", "tcp", many)[1]["I_MPI_THREAD_YIELD"], "2")

    def test_the_limit_gets_addresses_and_checks_nothing(self):
        limit = networks.make(ROOT, "/build", layout_of(3, 2), [])[-1]
        self.assertEqual(limit.environment["BENCH_ADDRESSES"], "10.0.0.1,10.0.0.2,10.0.0.3")
        self.assertEqual(limit.command(["allreduce"], [4], 15, 1)[-2:], ["-c", "0"])

    def test_builds_between_hosts(self):
        place, ran = networks.place_of(ROOT, NoHosts()), []
        words = place.start("/copy", 2)
        self.assertEqual(words[:5], ["/copy/tools/collrun", "--hosts", "h1:1,h2:1", "--agent",
                                     os.path.join(BENCH, "peers", "on_shaped_host") + " {host}"])
        with unittest.mock.patch.object(launch, "run", lambda *how: ran.append(how)):
            place.run(words, {"COLL_TUNE": "builtin"}, 9)
        self.assertEqual(ran, [(words, {"COLL_TUNE": "builtin", "BENCH_SPEED": "/speed"}, 9)])

    def test_options(self):
        self.assertEqual(compare_net.layout_list("2x1,16x4"), [(2, 1), (16, 4)])
        self.assertEqual(compare_net.link_list("0,10,bbr"),
                         [(0, "reno"), (10, "reno"), (0, "bbr")])
        for parse, text in ((compare_net.layout_list, "1x2"), (compare_net.layout_list, "2"),
                            (compare_net.link_list, "fast"), (compare_net.link_list, "-1")):
            with self.assertRaises(compare_net.argparse.ArgumentTypeError, msg=text):
                parse(text)
        options = compare_net.parse(["--quick"])
        self.assertEqual((options.layouts, options.links, options.name),
                         ([(2, 1), (2, 2)], [Link(0)], None))
        full = compare_net.parse([])
        self.assertEqual(full.links, [Link(0), Link(10), Link(1), compare_net.BBR_LINK])
        self.assertEqual(full.name, "net")
        counts = [len(compare_net.sizes_of(full, layout_of(2, 1), link)) for link in full.links]
        self.assertEqual(counts[:3], sorted(counts[:3], reverse=True))
        self.assertLess(counts[3], counts[0])

    def test_a_few_rows_under_bbr(self):
        full = compare_net.parse([])
        shaped = [(Link(gbit), name) for gbit in (0, 10, 1) for name in compare_net.COLLECTIVES]
        under_bbr = [(compare_net.BBR_LINK, name) for name in ("allreduce", "allgather",
                                                               "sendrecv")]
        for layout, more in ((layout_of(2, 1), under_bbr), (layout_of(2, 2), []),
                             (layout_of(4, 2), [])):
            self.assertEqual(compare_net.surveys_of(full, layout), shaped + more)

    def test_a_kernel_without_bbr(self):
        full, asked = compare_net.parse([]), compare_net.parse(["--links", "bbr"])
        with self.assertRaisesRegex(hosts.Unavailable, "reno alone"):
            compare_net.drop_unknown_links(asked, NoHosts())
        with unittest.mock.patch.object(compare_net.command, "say") as say:
            compare_net.drop_unknown_links(full, NoHosts())
        self.assertIn("reno alone; its rows are left out", say.call_args[0][1])
        self.assertEqual(full.links, [Link(0), Link(10), Link(1)])


class Launches(unittest.TestCase):
    def test_several_collectives(self):
        output = ('{"library":"MPICH Version: 5"}\n'
                  '{"collective":"allreduce","bytes":4,"wrong":0,"batch_us":[9,8,7]}\n'
                  '{"collective":"alltoall","bytes":8,"wrong":0,"batch_us":[3]}\n')
        one = collectives.Contender("mpich/ofi", ["launch"], ["peer"])
        lines = []

        def runner(line, _environment):
            lines.append(line)
            return output
        self.assertEqual(one.run(runner, ["allreduce", "alltoall"], [4, 8], 15, 1),
                         {("allreduce", 4): 8, ("alltoall", 8): 3})
        self.assertEqual(lines[0][:5], ["launch", "peer", "allreduce,alltoall", "--sizes", "4,8"])
        self.assertEqual(one.library, "MPICH 5")

    def limit_by(self, runner):
        one = networks.Limit("limit", ["launch"], ["limit_net"])
        return one.run(runner, ["allreduce", "alltoall"], [4, 8], 15, 1)

    def test_variants_of_sockets(self):
        def runner(line, _environment):
            row = '{"collective":"%s","bytes":8,"wrong":0,"batch_us":[%d]}\n'
            return "".join('{"library":"sockets/%s"}\n' % name + row % (line[2], us)
                           for name, us in (("poll", 9), ("spin-2-16K", 7)))
        times = {"poll": 9, "spin-2-16K": 7}
        self.assertEqual(self.limit_by(runner), {("allreduce", 8): times, ("alltoall", 8): times})

        def failing(line, environment):
            if line[2] == "alltoall":
                raise launch.Failure("no end", runner(line, environment)[:100])
            return runner(line, environment)
        with self.assertRaises(launch.Failure) as failed:
            self.limit_by(failing)
        self.assertEqual(failed.exception.times, {("allreduce", 8): times,
                                                  ("alltoall", 8): {"poll": 9}})

    def test_wrong_results_are_failures(self):
        one = collectives.Contender("mpich/ofi", [], ["peer"])
        for output in ('{"collective":"alltoall","bytes":8,"wrong":2,"batch_us":[3]}\n', ""):
            with self.assertRaises(launch.Failure):
                one.run(lambda *_, text=output: text, ["alltoall"], [8], 15, 1)

    def test_bytes_that_cross_the_network(self):
        layout, one = layout_of(2, 1), collectives.Contender("mpich/ofi", [], ["peer"])
        calls = networks.CHECK_CALLS + networks.CHECK_WARMUPS

        def run_with(wire):
            def run(_command, _environment, _seconds):
                NoHosts.counters = hosts.Traffic(NoHosts.counters.wire + wire * calls, 0)
                return ""
            return unittest.mock.patch.object(launch, "run", run)
        with run_with(2.01 * networks.CHECK_BYTES):
            found = networks.check_traffic(layout, one)
        self.assertAlmostEqual(found["wire"] / networks.CHECK_BYTES, 2.01)
        with run_with(0.5 * networks.CHECK_BYTES), self.assertRaises(launch.Failure):
            networks.check_traffic(layout, one)


class Rounds(unittest.TestCase):
    def survey(self, running, rounds=2, **waiting):
        return compare_net.Survey(layout_of(2, 1), Link(10), "allreduce", [4, 4096],
                                  running, (rounds, 15), STEADY, **waiting)

    def test_rows_of_rounds(self):
        key, other = ("allreduce", 4), ("allreduce", 4096)
        found = [Scripted("coll", {key: 1, other: 9}, {key: 3, other: 9}),
                 Scripted("mpich/ofi", {key: 5, other: 9}, {key: 5, other: 9}),
                 Scripted("mpich/ucx", {key: 50, other: 90}),
                 Scripted("limit", {key: {"spin": 1, "poll": 9}, other: {"poll": 8}},
                          {key: {"spin": 2}, other: {"poll": 8}, ("alltoall", 4): {"poll": 1}})]
        survey = self.survey(found)
        rows = survey.run(progress())
        row = next(row for row in rows if (row["collective"], row["bytes"]) == key)
        self.assertEqual(row["times_us"], {"coll": [1, 3], "mpich/ofi": [5, 5], "mpich/ucx": [50]})
        self.assertEqual(row["limit"], {"spin": [1, 2], "poll": [9]})
        self.assertEqual(figures.best_variant(row), (1.5, "spin"))
        self.assertEqual((row["hosts"], row["per_host"], row["gbit"], row["congestion"],
                          row["ranks"]), (2, 1, 10, "reno", 2))
        self.assertEqual(survey.layout.hosts.shapes, [10])
        self.assertEqual(survey.layout.hosts.congestion, ["reno"])
        self.assertEqual(found[0].checks, [1, 0])
        self.assertAlmostEqual(figures.ratio(row, "coll"), (5 + 5 / 3) / 2)
        self.assertAlmostEqual(figures.plain_over_ours(row, "coll"), (1 + 2 / 3) / 2)

    def environment_of(self, survey):
        """Of the launches of a round."""
        class Telling(Scripted):
            def run(self, runner, *_):
                return runner([], {"A": "b"})
        with unittest.mock.patch.object(networks, "run", lambda _hosts, _line, told: told):
            return survey.launch(Telling("limit"), 0)

    def test_variants_far_from_the_best_do_not_run_again(self):
        def run_variants(link, **times):
            survey = compare_net.Survey(layout_of(2, 1), link, "allreduce", [4, 8], [], (1, 9),
                                        STEADY)
            told = [self.environment_of(survey)]
            for one in survey.rows.values():
                one["limit"] = {name: [us] for name, us in times.items()}
            survey.drop_slow()
            return *told, self.environment_of(survey)
        before, after = run_variants(Link(0), poll=10, spin=12, fast=10.5)
        self.assertEqual(before, {"A": "b"})
        self.assertEqual(after["BENCH_VARIANTS"].split(), [
            "allreduce/4/poll", "allreduce/4/fast", "allreduce/8/poll", "allreduce/8/fast"])
        before, after = run_variants(Link(1), poll=10)
        self.assertEqual(before["BENCH_VARIANTS"].split(), [
            "allreduce/4/poll", "allreduce/4/spin", "allreduce/8/poll", "allreduce/8/spin"])

    def test_rounds_on_busy_processors_are_told(self):
        key, found = ("allreduce", 4), [None, [0.5, 0.97]]
        survey = self.survey([Scripted("coll", {key: 1}, {key: 1})], wait=lambda _: found.pop(0))
        survey.run(progress())
        self.assertEqual(survey.disturbed, [{"where": "allreduce, 2x1, 10 Gbit/s", "round": 2,
                                             "idle": [0.5, 0.97]}])
        text = compare_net.text_of(dict(document_of([row()]), disturbed=survey.disturbed))
        self.assertIn("Disturbed: allreduce, 2x1, 10 Gbit/s: the processors were not idle before "
                      "round 2 (50 % and 97 % idle)", text)

    def test_a_failure_ends_a_contender_alone(self):
        key = ("allreduce", 4)
        failure = launch.Failure("no end")
        failure.times = {key: 7}
        said = progress()
        survey = self.survey([Scripted("coll", {key: 1}, {key: 1}), Scripted("gloo/tcp", failure)])
        rows = survey.run(said)
        self.assertEqual(rows[0]["times_us"], {"coll": [1, 1], "gloo/tcp": [7]})
        self.assertIn("no end", survey.failures[0]["reason"])
        self.assertIn("2x1, 10 Gbit/s", said.said[0])

    def test_sizes_of_whole_elements(self):
        for name, size in (("allreduce", 4), ("allgather", 16), ("sendrecv", 4)):
            survey = compare_net.Survey(layout_of(), Link(0), name, [4, 5], [], (1, 9), STEADY)
            self.assertEqual((list(survey.rows), survey.sizes), ([(name, size)], [size]))


def row(size=1 << 20, coll=(10,), peer=(20,), limit=(9,), **more):
    return {"ranks": 4, "hosts": 2, "per_host": 2, "gbit": 10, "collective": "allreduce",
            "bytes": size, "times_us": {"coll": list(coll), "openmpi/ucx": list(peer)},
            "limit": {"socket_us": list(limit)}, **more}


def document_of(rows, cells=()):
    return {"tool": compare_net.NAME, "rows": rows, "algorithms": list(cells), "began": "now",
            "revision": "r",
            "machine": {"processor": "P", "cores": 2, "caches": {}},
            "load": {"before": 0, "after": 1},
            "settings": {"rounds": 1, "collectives": ["allreduce"]},
            "contenders": {"coll": {"library": "libcoll 1"}, "openmpi/ucx": {"library": "O 5"}},
            "traffic": [{"layout": "2x2", "contender": "coll", "wire": 2.5 * sizes.MIB,
                         "loopback": 0, "least": 2 * sizes.MIB}]}


CELL = {"hosts": 2, "per_host": 2, "gbit": 1, "bytes": 65536, "chosen": "torus2d", "algorithms": {
    "ring": {"predicted_us": 4000, "measured_us": [6000, 5000, 7000]},
    "hierarchical": {"predicted_us": 2000, "measured_us": [3000]},
    "torus2d": {"predicted_us": 1000, "measured_us": [3300]}}}


class Texts(unittest.TestCase):
    def test_verdicts(self):
        self.assertIs(figures.verdict(row(), "coll"), figures.PASS)
        self.assertIs(figures.verdict(row(coll=[21], limit=[19]), "coll"), figures.FAIL)
        self.assertIs(figures.verdict(row(coll=[21], limit=[22]), "coll"), figures.BEYOND)
        self.assertIs(figures.plain_verdict(row(per_host=1), "coll"), figures.PASS)
        self.assertIs(figures.plain_verdict(row(coll=[11], per_host=1), "coll"), figures.FAIL)
        self.assertIsNone(figures.plain_verdict(row(size=64, per_host=1), "coll"))
        self.assertIsNone(figures.plain_verdict(row(), "coll"))

    def test_the_fastest_variant_of_sockets_counts(self):
        one = row()
        one["limit"] = {"poll": [30, 10, 20], "spin": [19, 19, 500], "spin-2": [40]}
        self.assertEqual(figures.plain_us(one, "coll"), 19)
        self.assertIn("19.0  spin", compare_net.text_of(document_of([one])))
        self.assertEqual(figures.plain_us(row(limit=(9,)), "coll"), 9)
        self.assertNotIn("socket_us", compare_net.text_of(document_of([row()])))
        self.assertIsNone(figures.plain_us(row(limit=()), "coll"))

    def targets(self, rows):
        return {one.name: one[1:] for one in net_targets.classes(rows)}

    def test_targets_in_each_class_of_links(self):
        small = {"size": 64, "gbit": 0}
        rows = [row(gbit=0, coll=[25]), row(**small), row(**small, coll=[25.5]),
                row(**small, coll=[25.5], per_host=1), row(gbit=0, congestion="bbr", coll=[99]),
                row(gbit=0, per_host=1, coll=[10], limit=[8]),
                row(gbit=0, per_host=1, coll=[10], limit=[9]),
                row(gbit=10, congestion="reno"), row(peer=())]
        for per_host, size, least in ((1, 4, 0.8), (2, 4, 0.77), (2, 65536, 0.77), (2, 65540, 0.8)):
            self.assertEqual(net_targets.ratio_min(row(per_host=per_host, size=size)), least)
        self.assertEqual(self.targets(rows), {
            "unshaped": (6, 3, 1, 20 / 25.5, 2, 1),
            "unshaped, from 1 MiB": (3, 2, 0, 0.8, 2, 1),
            "unshaped, bbr": (1, 0, 1, 20 / 99, 0, 0),
            "10 Gbit/s": (1, 1, 0, 2, 0, 0)})

    def test_nine_rows_in_ten_are_enough(self):
        for good, of, enough in ((9, 10, True), (8, 9, False), (17, 19, False), (18, 20, True)):
            self.assertIs(net_targets.is_enough(good, of), enough)
        rows = [row(coll=[21 if at == 0 else 20]) for at in range(10)]
        for more, words in (([], "9 of 10  pass  0, least 0.95x  pass"),
                            ([row(coll=[30])], "9 of 11  FAIL  1, least 0.67x  FAIL")):
            text = " ".join(compare_net.text_of(document_of([*rows, *more])).split())
            self.assertIn(" ".join(words.split()), text)

    def test_text(self):
        rows = [row(), row(size=64, coll=[40]), row(size=64, per_host=1, ranks=2, gbit=0)]
        text = compare_net.text_of(document_of(rows, [CELL]))
        for words in ("allreduce, 2x2, 10 Gbit/s", "allreduce, 2x1, unshaped", "Open MPI, ucx",
                      "2 of 3 rows level with the best peer", "below 0.8 (0.77)",
                      "2x1, from 1 MiB: 0.85x the speed of plain sockets in 9 of 10 rows",
                      "sockets (us), / ours", "sockets / ours 0.23x",
                      "libcoll 1, O 5", "0.50x", "2x2    coll        2.50      2.00      0.00"):
            self.assertIn(words, text)

    def test_what_libcoll_beats_is_no_limit(self):
        text = compare_net.text_of(document_of([row(coll=[6])]))
        self.assertIn("1.50x", text)
        self.assertNotIn("TCP", text.splitlines()[1])
        for word in ("%", "limit", "Limit"):
            self.assertNotIn(word, text)

    def test_documents_are_merged(self):
        again = document_of([row(gbit=0), row(coll=[99])])
        again.update(failures=[{"contender": "gloo/tcp"}], began="later", settings={"rounds": 2})
        again["rows"].append(row(congestion="bbr", gbit=0))
        first = dict(document_of([row()], [CELL]), failures=[])
        first["machine"]["tcp_congestion_control"] = "reno"
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in "ab"]
            for path, document in zip(paths, (first, again)):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
            merged = compare_net.read_documents(paths)
        self.assertEqual([(one["gbit"], one["times_us"]["coll"]) for one in merged["rows"]],
                         [(0, [10]), (10, [10]), (0, [10])])
        text = compare_net.text_of(merged)
        self.assertIn("allreduce, 2x2, unshaped, bbr\n", text)
        self.assertIn(": all hosts share them; TCP's congestion control is reno\n", text)
        self.assertEqual((len(merged["algorithms"]), len(merged["traffic"])), (1, 1))
        self.assertEqual(merged["failures"], [{"contender": "gloo/tcp"}])
        self.assertIn("later, revision r", compare_net.text_of(merged))

    def test_algorithms(self):
        words = list(table.lines(compare_net.algorithm_columns(), [CELL]))[-1].split()
        self.assertEqual(words, ["2x2", "1", "Gbit/s", "64", "KiB", "4.00", "6.00", "2.00", "3.00",
                                 "2.00", "torus2d", "1.00", "3.30", "1.10"])

    def test_plot(self):
        document = document_of([row(), row(size=64), row(size=64, gbit=0), row(gbit=0)])
        tree = xml.etree.ElementTree.fromstring(compare_net.draw(document))
        texts = ["".join(one.itertext()) for one in tree.iter() if one.tag.endswith("text")]
        self.assertIn("2x2, 10 Gbit/s", texts)
        self.assertIn("2x2, unshaped", texts)


@contextlib.contextmanager
def real_hosts(count):
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = hosts.Hosts(count, folder).__enter__()
        except (hosts.Unavailable, OSError) as reason:
            raise unittest.SkipTest(str(reason)) from None
        try:
            yield made
        finally:
            made.remove()


class Namespaces(unittest.TestCase):
    def test_a_measurement(self):
        with real_hosts(2) as made:
            for per_host, collective, count in ((1, "allreduce", 2), (2, "sendrecv", 1)):
                layout = networks.Layout(made, 2, per_host)
                ours, limit = networks.make(ROOT, BUILD, layout, [])
                found = networks.check_traffic(layout, ours)
                self.assertLess(found["loopback"], networks.CHECK_BYTES / 10)
                survey = compare_net.Survey(layout, Link(0), collective, [4, 65536],
                                            [ours, limit], (count, 5), STEADY)
                rows = survey.run(progress())
                self.assertEqual((len(rows), survey.failures), (2, []))
                if count == 2:
                    for one in rows:
                        near = {name for name, times in one["limit"].items() if len(times) == 2}
                        self.assertEqual(near, set(
                            survey.variants[collective, one["bytes"]]))
                    self.assertGreater(len(rows[1]["limit"]), len(rows[0]["limit"]))
                for one in rows:
                    self.assertGreater(figures.time_us(one, "coll"), 0)
                    self.assertGreater(figures.plain_us(one, "coll"), 0)

    def test_shaped_links_are_slow(self):
        with real_hosts(2) as made:
            layout = networks.Layout(made, 2, 1)
            ours, _ = networks.make(ROOT, BUILD, layout, [])
            survey = compare_net.Survey(layout, Link(1), "sendrecv", [4 << 20], [ours], (1, 5),
                                        STEADY)
            time_us = survey.run(progress())[0]["times_us"]["coll"][0]
            shaped_us = (4 << 20) * 8e-3
            tap.figure("4 MiB by 1 Gbit/s: %.0f us, of bytes alone %.0f us" % (time_us, shaped_us))
            self.assertGreater(time_us, 0.4 * shaped_us)  # an unshaped link is faster
            rows = hierarchy.Comparison(ROOT, BUILD, networks.Layout(made, 2, 2), 1,
                                        [1 << 20]).predict()
            chosen = rows[0]["algorithms"][rows[0]["chosen"]]["predicted_us"]
            self.assertGreater(chosen, 0.4 * (1 << 20) * 8e-3)
            made.shape(0)
            run = subprocess.run(["tc", "-n", made.names[0], "qdisc", "show", "dev", "eth0"],
                                 capture_output=True, text=True, check=True)
            self.assertNotIn("tbf", run.stdout)

    def test_congestion_control_is_that_of_the_hosts_alone(self):
        def read(*words):
            return subprocess.run([*words, "cat", hosts.CONGESTION_FILE], capture_output=True,
                                  text=True, check=True).stdout.strip()
        before = read()
        with real_hosts(2) as made:
            inside = ["ip", "netns", "exec", made.names[1]]
            self.assertEqual(read(*inside), "reno")
            with self.assertRaisesRegex(hosts.Unavailable, "'nonsense' .the kernel has .*reno"):
                made.set_congestion("nonsense")
            if before != "reno":
                made.set_congestion(before)
                self.assertEqual(read(*inside), before)
        self.assertEqual(read(), before)

    def test_nothing_is_left(self):
        with real_hosts(2) as made:
            names = [*made.names, made.bridge]
            self.assertTrue(all(name in hosts.ip("netns", "list") for name in names))
        self.assertFalse(any(name in hosts.ip("netns", "list") for name in names))


if __name__ == "__main__":
    tap.run()
