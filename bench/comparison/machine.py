"""Describes the machine and the time of a measurement."""
import datetime
import os
import platform
import subprocess


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


def revision(root):
    """The commit of the sources, with "+" if they are modified; "" without git."""
    try:
        run = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty=+"],
                             capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return run.stdout.strip()


def sentence(machine):
    """"AMD EPYC, 2 cores, L1 48K, L2 1024K, L3 32768K"."""
    parts = [machine["processor"], "%d cores" % machine["cores"]]
    return ", ".join(parts + ["%s %s" % pair for pair in machine["caches"].items()])
