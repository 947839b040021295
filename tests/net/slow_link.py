#!/usr/bin/env python3
"""Links two network namespaces by an interface "slow" of each, which carries so many bits per
second in each direction, on kernels that cannot limit those of others. Their addresses are
10.82.0.1 and 10.82.0.2.

    slow_link.py NAMESPACE NAMESPACE MBIT    prints "ready" once it carries packets
"""
import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001


def open_in(namespace):
    """The interface in that namespace, in which this thread then is."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as place:
        if libc.setns(place.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"slow", IFF_TUN_NO_PI))
    return end


def pump(source, target, mbit):
    """Passes packets on, each when those before it have taken their time."""
    due = 0.0
    while True:
        packet = os.read(source, 65536)
        due = max(due, time.monotonic()) + len(packet) * 8e-6 / mbit
        time.sleep(max(0.0, due - time.monotonic()))
        os.write(target, packet)


def main(one, other, mbit):
    ends = []
    for number, namespace in enumerate((one, other), 1):
        ends.append(open_in(namespace))
        for words in (["addr", "add", f"10.82.0.{number}/24", "dev", "slow"],
                      ["link", "set", "slow", "up"]):
            subprocess.run(["ip", *words], check=True)
    for source, target in (ends, ends[::-1]):
        threading.Thread(target=pump, args=(source, target, float(mbit)), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
