"""The machine, the revision and the time of a measurement, as its document says them."""
import datetime
import os
import platform
import subprocess

from comparison.command import ROOT

REVISION = "revision"  # a file of packed folders

def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def processor():
    for line in read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def caches():
    """{"L2": "1024K"}, the caches of the first core."""
    found = {}
    folder = "/sys/devices/system/cpu/cpu0/cache"
    for index in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        level, kind, size = (read(os.path.join(folder, index, name)).strip()
                             for name in ("level", "type", "size"))
        if size and kind != "Instruction":
            found["L" + level] = size
    return found


def describe():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": processor(), "architecture": platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "caches": caches(), "memory_bytes": pages,
            "system": "%s %s" % (platform.system(), platform.release())}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def load():
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def revision():
    """The commit of the sources, with "+" if they are modified; "" without git. Of a packed folder
    (contenders/gpu_pack.py), that of the sources that it was packed from."""
    packed = os.path.join(ROOT, REVISION)
    if os.path.exists(packed):
        with open(packed) as file:
            return file.read().strip()
    try:
        run = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+"],
                             capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return run.stdout.strip()


def sentence(machine):
    """"AMD EPYC, 2 cores, L1 48K, L2 1024K, L3 32768K"."""
    parts = [machine["processor"], "%d cores" % machine["cores"]]
    return ", ".join(parts + ["%s %s" % pair for pair in machine["caches"].items()])


# ---- documents -----------------------------------------------------------------------------------

def begin(tool, **more):
    """A document, before its figures are measured."""
    return {"tool": tool, "began": now(), "revision": revision(), "machine": describe(),
            "load": {"before": load()}, **more}


def end(document, **more):
    """Adds what is known after measuring."""
    document["load"]["after"] = load()
    document.update(more, ended=now())
    return document


def heading(document, text):
    """The first lines of a table: where, when, of what sources, and the text."""
    yield sentence(document["machine"])
    yield when(document, text)


def when(document, text):
    words = [document["began"]]
    if "revision" in document:
        words.append("revision %s" % (document["revision"] or "unknown"))
    loads = ", ".join("%.1f %s" % (document["load"][at], at) for at in ("before", "after")
                      if at in document["load"])
    return ", ".join([*words, "load " + loads]) + "; " + text
