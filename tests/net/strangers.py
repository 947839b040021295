#!/usr/bin/env python3
"""Calls every TCP port that anyone listens on in this network namespace, as strangers do: 1,000
connections at once, then 200 new ones a second, until standard input ends. Of every five, one sends
random bytes, one nothing, one a valid beginning byte by byte, one another's handshake, and one is
reset at once. Prints when it begins to look for ports, when it has made more than those at once,
and at the end how many were made, and how many were answered as ranks are.

Usage: strangers.py PORT...: at first only these."""
import os
import random
import select
import socket
import struct
import sys
import time

AT_ONCE, PER_SECOND, OPEN_MAX = 1000, 200, 4000
TO_ANYONE = 72 + 16  # an answer without a proof, and that there is no time
HELLO = b"colla002" + bytes(range(32))  # of base/net/handshake.c


def listening_ports():
    """Of all processes of this namespace, from /proc/net."""
    ports = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            for line in list(table)[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


class Stranger:
    """One connection."""

    def __init__(self, port, kind):
        self.kind, self.sent = kind, 0
        self.line = socket.socket()
        self.line.setblocking(False)
        self.answered = 0
        try:
            self.line.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass

    def act(self):
        """False: it is over."""
        try:
            if self.kind == 4:
                self.line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.line.close()
                return False
            if self.kind == 0 and self.sent == 0:
                self.sent = self.line.send(os.urandom(500))
            if self.kind == 2 and self.sent < len(HELLO):
                self.sent += self.line.send(HELLO[self.sent : self.sent + 1])
            if self.kind == 3 and self.sent == 0:
                self.sent = self.line.send(HELLO + bytes(32) + os.urandom(900))
            got = self.line.recv(4096)
            self.answered += len(got)
            return len(got) > 0
        except BlockingIOError:
            return True
        except OSError:
            return False


def main():
    ports = [int(word) for word in sys.argv[1:]]
    strangers, made, admitted = [], 0, 0
    begin = time.monotonic()
    first_ns = None
    has_called = False
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        listening = [port for port in listening_ports() if port in ports or first_ns is not None]
        now = time.monotonic()
        if listening and first_ns is None:
            first_ns = now
        due = 0
        if first_ns is not None:
            due = AT_ONCE + int((now - first_ns) * PER_SECOND) - made
        for _ in range(due):
            if listening and len(strangers) < OPEN_MAX:
                try:
                    strangers.append(Stranger(random.choice(listening), made % 5))
                except OSError:
                    pass
            made += 1
        if made > AT_ONCE and not has_called:
            has_called = True
            print("called", flush=True)
        left = []
        for stranger in strangers:
            if stranger.act():
                left.append(stranger)
            elif stranger.answered > TO_ANYONE:
                admitted += 1
        strangers = left
    print(f"{made} strangers in {time.monotonic() - begin:.1f} s, {admitted} admitted")


main()
