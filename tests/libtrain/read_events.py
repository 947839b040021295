"""Reads TensorBoard event files with nothing but the standard library: checks every frame and its
checksums, and prints `tag step value` for every scalar. Usage: read_events.py FILE..."""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(data, expected):
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != expected:
        sys.exit("checksum %08x where %08x was expected" % (expected, masked))


def records(data):
    """The payloads of a TFRecord file."""
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        check(data[at:at + 8], length_crc)
        payload = data[at + 12:at + 12 + length]
        check(payload, struct.unpack_from("<I", data, at + 12 + length)[0])
        yield payload
        at += 16 + length


def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protocol-buffer message; fixed and nested values as bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            count = {1: 8, 5: 4}.get(wire)
            if count is None:
                count, at = varint(data, at)
            value, at = data[at:at + count], at + count
        yield key >> 3, value


def main(paths):
    for path in paths:
        with open(path, "rb") as file:
            events = [list(fields(record)) for record in records(file.read())]
        if dict(events[0])[3] != b"brain.Event:2":
            sys.exit("%s does not start with the version" % path)
        for event in events[1:]:
            for number, summary in event:
                for _, value in fields(summary) if number == 5 else ():
                    value = dict(fields(value))
                    print(value[1].decode(), dict(event)[2], struct.unpack("<f", value[2])[0])


main(sys.argv[1:])
