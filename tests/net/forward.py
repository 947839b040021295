#!/usr/bin/env python3
"""Forwards TCP connections, as the address of a service or a gateway does.

    forward.py ADDRESS PORT TO    from ADDRESS:PORT to TO:PORT; prints "ready" once it listens
"""
import socket
import sys
import threading


def pump(source, target):
    """Copies one direction until it ends, and passes the end on."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()


def serve(caller, to, port):
    """A target that refuses is a connection that is closed."""
    try:
        target = socket.create_connection((to, port))
    except OSError:
        caller.close()
        return
    for ends in ((caller, target), (target, caller)):
        threading.Thread(target=pump, args=ends, daemon=True).start()


def main(address, port, to):
    with socket.create_server((address, int(port))) as listener:
        print("ready", flush=True)
        while True:
            serve(listener.accept()[0], to, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
