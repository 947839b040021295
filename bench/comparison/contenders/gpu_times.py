"""Times of libcoll and of NCCL at the same sizes, in interleaved runs, and the limit of the memory
and the links that were measured."""
import importlib.machinery
import importlib.util
import json
import os
import tempfile

from comparison import rounds
from comparison.command import ROOT
from comparison.launch import end_group, json_lines

COLLECTIVES = "allreduce,allgather,reduce_scatter,alltoall,broadcast"
SMALL = "8,64,1K,8K,64K,256K,1M"
LARGE = "4M,16M,64M,256M,1G"
VIRTUAL = ("8,8K", "1M")
SLOW = ("8,8K,256K,1M", "4M,64M")  # of contenders that copy through the host and take turns
ROUNDS = 3
TIME_MS = 15


def load_model():
    """tools/gpu-speed as a module."""
    path = os.path.join(ROOT, "tools", "gpu-speed")
    loader = importlib.machinery.SourceFileLoader("gpu_speed", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_speed", loader))
    loader.exec_module(module)
    return module


class Setting:
    """Ranks on the GPUs: how many, whether all are on the first GPU, threads or processes, and
    whether our buffers are windows."""

    def __init__(self, ranks, one_gpu, processes=False, windows=False):
        self.ranks, self.one_gpu, self.processes = ranks, one_gpu, processes
        self.windows = windows

    def text(self):
        return "%d %s on %s%s" % (self.ranks, "processes" if self.processes else "threads",
                                  "one GPU" if self.one_gpu else "all GPUs",
                                  ", windows" if self.windows else "")

    def environment(self, machine):
        """Ranks that share a GPU share all of its multiprocessors: there are no other
        communicators here, for which libcoll would keep some."""
        if not self.one_gpu or self.processes or machine.standin:
            return {}
        return {"COLL_CUDA_BLOCKS": str(max(1, machine.multiprocessors() // self.ranks))}


def settings_of(machine, rank_counts):
    settings = []
    for index, ranks in enumerate(rank_counts):
        settings.append(Setting(ranks, True))
        settings.append(Setting(ranks, True, windows=True))
        if index < 2:
            settings.append(Setting(ranks, True, True))
    if machine.gpus > 1:
        settings += [Setting(machine.gpus, False), Setting(machine.gpus, False, windows=True),
                     Setting(machine.gpus, False, True)]
    return settings


# ---- the contenders ------------------------------------------------------------------------------

def run_ours(machine, setting, sizes, limit):
    """{(collective, bytes): us} and a note if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        words = [COLLECTIVES, "--sizes", sizes, "--place", "out", "--time-ms", TIME_MS, "-n", 1000,
                 "-c", 1, "--print", "rows", "--json", file]
        if setting.windows:
            words += ["-R", "--mem", "cuda-coll"]
        if setting.processes:
            command = machine.collrun(setting.ranks, machine.collbench(*words, "--mem", "cuda"))
        else:
            command = machine.collbench(*words, "-g", setting.ranks)
        code, out, err = machine.run(command, limit, setting.one_gpu, setting.environment(machine))
        if code != 0:
            return {}, "no end" if code is None else (err or out).strip().splitlines()[-1:]
        with open(file) as rows:
            document = json.load(rows)
    times = {}
    for row in document["rows"]:
        result = row["out_of_place"]
        if result and result["wrong"] == 0:
            times[row["collective"], row["bytes"]] = result["time_us"]
    return times, None


def parse_peer(text):
    """(name, {(collective, bytes): us}) of the lines of peer-nccl; rows with wrong elements are
    left out."""
    name, times = None, {}
    for row in json_lines(text):
        if "library" in row:
            name = row["library"]
        elif row["wrong"] == 0:
            times[row["collective"], row["bytes"]] = rounds.median(row["batch_us"])
    return name, times


def nccl_environment(setting, rank):
    """NCCL refuses two ranks on a GPU, unless they claim to be on different hosts, or in newer
    releases are allowed to."""
    if not setting.one_gpu:
        return {}
    return {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_HOSTID": "gpu-check-%d" % rank}


def peer_command(machine, library, words, setting, rank=None, id_file=None):
    start = [machine.path("bench/peer-nccl"), library]
    if rank is None:
        return start + ["threads", str(setting.ranks), *words]
    return start + [str(rank), str(setting.ranks), id_file, *words]


def run_nccl(machine, library, setting, sizes, limit):
    """(name, times, note). On one GPU the ranks are processes with a host name of their own."""
    words = [COLLECTIVES, "--sizes", sizes, "--place", "out", "--time-ms", str(TIME_MS), "-n",
             "1000", "-c", "1"]
    if not setting.one_gpu and not setting.processes:
        code, out, err = machine.run(peer_command(machine, library, words, setting), limit)
        name, times = parse_peer(out)
        return name, times, None if code == 0 else (err.strip().splitlines() or ["no end"])[-1]
    with tempfile.TemporaryDirectory() as folder:
        id_file = os.path.join(folder, "id")
        processes = [machine.start(peer_command(machine, library, words, setting, rank, id_file),
                                   setting.one_gpu, nccl_environment(setting, rank))
                     for rank in range(setting.ranks)]
        return collect_ranks(machine, processes, limit)


def collect_ranks(machine, processes, limit):
    note, first = None, ""
    for index, process in enumerate(processes):
        try:
            out, err = process.communicate(timeout=machine.limit(limit))
        except Exception:
            for other in processes:
                end_group(other)
            out, err = process.communicate()
            note = note or "did not end within %d s" % limit
        if index == 0:
            first = out
        if process.returncode != 0:
            note = note or (err.strip().splitlines() or ["exit code %s" % process.returncode])[-1]
            for other in processes:
                end_group(other)
    name, times = parse_peer(first)
    return name, times, note


# ---- limit ---------------------------------------------------------------------------------------

def measure_limit(machine):
    """The output of bench/gpu_limit, or None."""
    size, copies = ("1M", "3") if machine.standin else ("512M", "20")
    code, out, _ = machine.run([machine.path("bench/gpu_limit"), size, copies], 60)
    return json.loads(out) if code == 0 else None


def limit_us(model, measured, setting, collective, size):
    """By the model of tools/gpu-speed: bytes over the bandwidths that gpu_limit measured here."""
    gpus = 1 if setting.one_gpu else len(measured["gpus"])
    speeds = model.Speeds("one-h100" if gpus == 1 else "8xh100", setting.ranks, False)
    speeds.gpus = gpus
    speeds.hbm = min(gpu["copy_gbs"] for gpu in measured["gpus"]) * 1e3
    links = [speed for row in measured["peers"] for speed in row if speed > 0]
    speeds.nvlink = min(links) * 1e3 if gpus > 1 and links else None
    return model.limit_us(speeds, collective, size)


# ---- all of it -----------------------------------------------------------------------------------

class Times:
    """Of all rounds: {(setting, collective, bytes): {"coll" or "nccl": [us]}}."""

    def __init__(self):
        self.rows, self.notes, self.nccl_name = {}, [], None

    def add(self, setting, contender, times):
        for (collective, size), us in times.items():
            row = self.rows.setdefault((setting.text(), collective, size), {})
            row.setdefault(contender, []).append(us)

    def note(self, setting, contender, text):
        line = "%s, %s: %s" % (setting.text(), contender, text)
        if line not in self.notes:
            self.notes.append(line)


def run_round(machine, nccl, settings, times, groups, seconds_kept):
    shared = {}  # NCCL's times on one GPU, where its ranks are processes in either setting
    for setting in settings:
        for large, sizes in enumerate(groups):
            if machine.seconds_left() < seconds_kept:
                times.note(setting, "speed", "the time was over before all rounds")
                return
            ours, note = run_ours(machine, setting, sizes, 60)
            times.add(setting, "coll", ours)
            if note:
                times.note(setting, "libcoll", note)
            if not nccl:
                continue
            if setting.one_gpu:
                sizes = SLOW[large]
            key = setting.ranks, large
            if setting.one_gpu and key in shared:
                times.add(setting, "nccl", shared[key])
                continue
            name, theirs, note = run_nccl(machine, nccl, setting, sizes, 60)
            if setting.one_gpu:
                shared[key] = theirs
            times.nccl_name = times.nccl_name or name
            times.add(setting, "nccl", theirs)
            if note:
                times.note(setting, "NCCL", note)


def measure(machine, nccl, rank_counts, seconds_kept):
    """Times of as many rounds as there is time for."""
    times, settings = Times(), settings_of(machine, rank_counts)
    groups = VIRTUAL if machine.standin else (SMALL, LARGE)
    for _ in range(1 if machine.standin else ROUNDS):
        run_round(machine, nccl, settings, times, groups, seconds_kept)
    return times, settings


def table(times, settings, measured):
    """Rows for the results: medians over the rounds, and the limit."""
    model, rows = load_model(), []
    for setting in settings:
        for (text, collective, size), found in sorted(times.rows.items()):
            if text != setting.text() or size == 0:
                continue  # a size of fewer elements than ranks is none
            ours, theirs = (rounds.median(found.get(name, [])) for name in ("coll", "nccl"))
            limit = limit_us(model, measured, setting, collective, size) if measured else None
            if limit is not None and any(us < limit for us in (ours, theirs) if us is not None):
                limit = None  # the bytes stayed in a cache, whose bandwidth was not measured
            rows.append({"setting": text, "ranks": setting.ranks, "collective": collective,
                         "bytes": size, "coll_us": ours, "nccl_us": theirs, "limit_us": limit,
                         "rounds": len(found.get("coll", []))})
    return rows
