"""Runs the parts of a test of another project's package as ranks of a communicator, with our
libnccl.so.2 loaded before NVIDIA's. A part that fails, or that hangs, ends its processes; the parts
behind it run in new ones. Prints a line for each part."""
import argparse
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

VERSION = 22809  # what our library says that it is


class Skip(Exception):
    """A part that cannot run here, with the reason."""


# ---- in a rank -----------------------------------------------------------------------------------


def require_ours():
    """What our library has said of itself. Fails unless it has, and NVIDIA's has not; call it when
    the package has made a communicator."""
    sys.stderr.flush()
    with open(os.environ["RANKS_REPORT"] + ".err", errors="replace") as said:
        lines = said.read().splitlines()
    ours = [line for line in lines if re.match(r"libcoll NCCL \d", line)]
    others = [line for line in lines if "NCCL version" in line]
    if not ours or others:
        raise SystemExit("our library is not used: %s" % (others or "it has said nothing"))
    version = ctypes.c_int()
    ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version))
    if version.value != VERSION:
        raise SystemExit("ncclGetVersion gave %d" % version.value)
    return ours[0]


class Report:
    """What this rank tells the launcher."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1)

    def write(self, part, state, text=""):
        self.file.write(json.dumps([part, state, text]) + "\n")

    def run(self, part, function):
        """Runs a part; false if it failed."""
        self.write(part, "start")
        began = time.time()
        try:
            text = function()
            took = "%.1f s" % (time.time() - began)
            self.write(part, "ok", took + ", " + text if text else took)
        except Skip as skip:
            self.write(part, "skipped", str(skip))
        except Exception as error:
            traceback.print_exc()
            lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
            frame = traceback.extract_tb(error.__traceback__)
            frame = [each for each in frame if os.path.dirname(__file__) in each.filename][-1]
            keep = [line for line in lines if re.search("rror|coll", line)] or lines
            text = "line %d: %s: %s" % (frame.lineno, type(error).__name__, " / ".join(keep[:4]))
            self.write(part, "FAIL", text[:600])
            return False
        return True


# ---- the launcher --------------------------------------------------------------------------------


class Ranks:
    """The processes of one launch."""

    def __init__(self, options, script, session, parts, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.paths, self.processes = [], []
        for rank in range(1 if session.threads else options.ranks):
            path = os.path.join(folder, "rank%d" % rank)
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks),
                       LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       RANKS_REPORT=path, RANKS_COUNT=str(options.count),
                       **session.env)
            env.setdefault("NCCL_DEBUG", "VERSION")
            preload = [options.library] + options.preload
            env["LD_PRELOAD"] = ":".join(preload + [env.get("LD_PRELOAD", "")]).strip(":")
            with open(path + ".err", "w") as errors:
                self.processes.append(subprocess.Popen(
                    [sys.executable, script, "--rank-of", session.name, ",".join(parts)], env=env,
                    stdout=errors, stderr=errors, start_new_session=True))
            self.paths.append(path)

    def results(self):
        """For each rank a list of (part, state, text)."""
        found = []
        for path in self.paths:
            lines = open(path).read().splitlines() if os.path.exists(path) else []
            found.append([json.loads(line) for line in lines if line.endswith("]")])
        return found

    def wait(self, limit):
        """Until all have ended; or one has failed, and the others had some seconds to end, too; or
        no part has begun or ended for `limit` seconds."""
        seen, since, failed = None, time.time(), None
        while any(process.poll() is None for process in self.processes):
            results = self.results()
            count = sum(len(each) for each in results)
            if count != seen:
                seen, since = count, time.time()
            bad = any(line[1] == "FAIL" for rank in results for line in rank) or any(
                process.poll() not in (None, 0) for process in self.processes)
            if bad and failed is None:
                failed = time.time()
            starts = 0 if count else 60  # packages can take long to be loaded
            if time.time() - since > limit + starts or (failed and time.time() - failed > 8):
                break
            time.sleep(0.05)
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return [process.wait() for process in self.processes]

    def said(self, rank):
        lines = open(self.paths[rank] + ".err", errors="replace").read().splitlines()
        lines = [line for line in lines if line.strip() and "Traceback" not in line and
                 not line.startswith("libcuda stand-in")]
        return " / ".join(lines[-3:])[-400:]


def outcome(part, ranks, codes):
    """(state, text) of a part, or None if no rank has begun it."""
    texts, worst, began = [], "ok", False
    order = ["ok", "skipped", "start", "FAIL"]
    for rank, lines in enumerate(ranks.results()):
        mine = [line for line in lines if line[0] == part]
        began = began or len(mine) > 0
        state, text = (mine[-1][1], mine[-1][2]) if mine else ("start", "")
        if state == "start":
            code = codes[rank]
            ended = "was stopped" if code == -signal.SIGKILL else "ended with %d" % code
            text = "rank %d %s in it: %s" % (rank, ended, ranks.said(rank))
        elif state == "FAIL":
            text = "rank %d: %s" % (rank, text)
        if order.index(state) > order.index(worst):
            worst, texts = state, []
        if state == worst and text and text not in texts:
            texts.append(text)
    if not began:
        return None
    return ("FAIL" if worst == "start" else worst), (texts[0] if texts else "")


def run_session(options, script, session, show):
    left = list(session.parts)
    while left:
        with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
            ranks = Ranks(options, script, session, left, folder)
            codes = ranks.wait(options.limit)
            results = {part: outcome(part, ranks, codes) for part in left}
            if all(result is None for result in results.values()):
                show(left[0], "FAIL", "the ranks did not start: %s" % ranks.said(0))
                results = {part: ("FAIL", "the ranks did not start") for part in left[1:]}
            for part in session.parts:
                if results.get(part):
                    show(part, *results[part])
            if (results.get("version") or [""])[0] == "FAIL":  # nothing can run
                return
            left = [part for part in left if part in results and results[part] is None]
            if options.keep:
                for rank, path in enumerate(ranks.paths):
                    print("---- rank %d said:\n%s" % (rank, open(path + ".err").read()))


class Session:
    """Parts that run in the same processes, one after the other. threads: the ranks are threads."""

    def __init__(self, name, parts, env=None, threads=False):
        self.name, self.parts, self.env, self.threads = name, parts, env or {}, threads


def arguments(description, skips):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--library", help="our libnccl.so.2")
    parser.add_argument("--preload", action="append", default=[],
                        help="another library for LD_PRELOAD, as the stand-ins for CUDA are")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--count", type=int, default=300000, help="elements of the largest calls")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one part")
    parser.add_argument("--total", type=float, default=3600,
                        help="seconds after which no session begins")
    parser.add_argument("--only", default="", help="sessions or parts, separated by commas")
    parser.add_argument("--keep", action="store_true", help="print all that the ranks say")
    parser.add_argument("--expect", default="",
                        help="parts that may fail here, separated by commas; none else may")
    parser.add_argument("--rank-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of is None and skips:
        print("skipped: %s" % skips)
        sys.exit(77)
    if options.rank_of is None and not options.library:
        parser.error("give --library")
    if options.library:
        options.library = os.path.abspath(options.library)
    return options


def launch(options, script, sessions):
    """Runs the sessions that are asked for. Returns the exit status."""
    asked = [each for each in options.only.split(",") if each]
    expected = [each for each in options.expect.split(",") if each]
    counts = {"ok": 0, "FAIL": 0, "skipped": 0}
    surprises = []
    began = time.time()
    for session in sessions:
        if asked and session.name not in asked:
            session.parts = [part for part in session.parts if part in asked]
        if not session.parts:
            continue
        if time.time() - began > options.total:
            print("%s: not begun, as %.0f s are over" % (session.name, options.total))
            continue
        print("%s: %d %s" % (session.name, options.ranks,
                             "threads" if session.threads else "processes"))

        def show(part, state, text):
            counts[state] += 1
            if state == "FAIL" and part not in expected:
                surprises.append(part)
            print("  %-22s %s%s" % (part, state, ": " + text if text else ""), flush=True)

        run_session(options, script, session, show)
    print("%d ok, %d failed, %d skipped, in %.0f s" % (counts["ok"], counts["FAIL"],
                                                      counts["skipped"], time.time() - began))
    if expected and surprises:
        print("not expected to fail: %s" % ", ".join(surprises))
    return 1 if (surprises if expected else counts["FAIL"]) else 0
