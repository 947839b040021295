"""Hosts that are network namespaces of this machine: each has an interface eth0, and one bridge
joins them. Links may be shaped, and their counters say what crossed them."""
import collections
import contextlib
import os
import signal
import subprocess

from comparison import launch

BRIDGE = "b"
NETWORK = "10.77.0"
# Each end of a link sends at that rate, in bursts of at most these bytes.
BURST_BYTES = {1: 128 << 10, 10: 1 << 20}
LATENCY_MS = 50  # that a packet may wait for tokens before it is dropped
UNSHAPED = 0
# TCP's congestion control in the hosts, whatever that of this machine is: results of machines with
# different defaults can be compared.
RENO, BBR = "reno", "bbr"
CONGESTION_FILE = "/proc/sys/net/ipv4/tcp_congestion_control"
VETH_GBIT = 10  # what a virtual interface states as its speed

# A class of links: their rate, 0 for unshaped ones, and the congestion control of TCP over them.
Link = collections.namedtuple("Link", "gbit congestion", defaults=[RENO])

# Bytes that left the hosts' interfaces to the network, and those that went through loopback.
Traffic = collections.namedtuple("Traffic", "wire loopback")


class Unavailable(launch.Trouble):
    """The system makes no network namespaces. The text says why."""


def ip(*words):
    try:
        run = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable("iproute2, which has the program ip, is not installed") from None
    if run.returncode:
        raise Unavailable("ip %s: %s" % (" ".join(words), run.stderr.strip() or "failed"))
    return run.stdout


def link_text(gigabits, congestion=RENO):
    """"unshaped", "10 Gbit/s", "unshaped, bbr"."""
    rate = "unshaped" if gigabits == UNSHAPED else "%g Gbit/s" % gigabits
    return rate if congestion == RENO else "%s, %s" % (rate, congestion)


def link_of(row):
    """Of a row {"gbit", "congestion"}. Older files do not say which congestion control it was."""
    return Link(row["gbit"], row.get("congestion", RENO))


class Hosts:
    """Makes the hosts on entry and removes them, and all that runs in them, on exit."""

    def __init__(self, count, folder):
        self.prefix = "net%d" % os.getpid()
        self.names = ["%sh%d" % (self.prefix, i + 1) for i in range(count)]
        self.addresses = ["%s.%d" % (NETWORK, i + 1) for i in range(count)]
        self.bridge = self.prefix + BRIDGE
        self.file = os.path.join(folder, "hosts")
        self.speed_file = os.path.join(folder, "speed")  # for on_shaped_host
        self.made = []

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        self.add_namespace(self.bridge)
        ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", self.bridge, "link", "set", "br0", "up")
        for number, name in enumerate(self.names, 1):
            self.add_namespace(name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "h%d" % number,
               "netns", self.bridge)
            ip("-n", self.bridge, "link", "set", "h%d" % number, "master", "br0", "up")
            ip("-n", name, "addr", "add", self.addresses[number - 1] + "/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(
                "%s %s\n" % pair for pair in zip(self.addresses, self.names)))
        self.shape(UNSHAPED)
        self.set_congestion(RENO)

    def add_namespace(self, name):
        ip("netns", "add", name)
        self.made.append(name)

    def remove(self):
        self.end_processes()
        while self.made:
            with contextlib.suppress(Unavailable):
                ip("netns", "del", self.made.pop())

    def end_processes(self):
        """What a launch that failed left behind."""
        for name in self.made:
            for pid in ip("netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def shape(self, gigabits):
        """The rate of each direction of every link."""
        with open(self.speed_file, "w", encoding="utf-8") as file:
            file.write("%d\n" % (1000 * (gigabits or VETH_GBIT)))
        for name in self.names:
            subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", "eth0", "root"],
                           capture_output=True, check=False)  # there may be none
            if gigabits == UNSHAPED:
                continue
            run = subprocess.run(
                ["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                 "%ggbit" % gigabits, "burst", str(BURST_BYTES.get(gigabits, 1 << 20)), "latency",
                 "%dms" % LATENCY_MS], capture_output=True, text=True, check=False)
            if run.returncode:
                raise Unavailable("tc cannot shape a link: " + run.stderr.strip())

    def set_congestion(self, name):
        """Of the connections that are made from now on. Raises Unavailable where the kernel does
        not have it."""
        for host in self.names:
            try:
                ip("netns", "exec", host, "sh", "-c",
                   "echo %s > %s && grep -qx %s %s" % (name, CONGESTION_FILE, name,
                                                       CONGESTION_FILE))
            except Unavailable as reason:
                raise Unavailable(
                    "the hosts' TCP cannot use the congestion control '%s' (the kernel has %s): "
                    "%s" % (name, self.known_congestion(), reason)) from None

    @staticmethod
    def known_congestion():
        with contextlib.suppress(OSError):
            with open(os.path.dirname(CONGESTION_FILE) + "/tcp_available_congestion_control",
                      encoding="ascii") as file:
                return file.read().strip()
        return "none"

    def traffic(self):
        """What the counters say now."""
        folder = "/sys/class/net/%s/statistics/tx_bytes"
        sums = []
        for device in ("eth0", "lo"):
            counts = [int(ip("netns", "exec", name, "cat", folder % device)) for name in self.names]
            sums.append(sum(counts))
        return Traffic(*sums)


def since(before, after):
    return Traffic(*(late - early for early, late in zip(before, after)))
