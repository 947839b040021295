#!/usr/bin/env python3
"""Writes unicode_bounds.c, the boundaries of the character classes of unicode.h. Needs the Unicode
character database of VERSION, from Python itself or from the package unicodedata2. The result is
stored with the sources so that a tokenizer splits words identically on every machine.

    python3 libtrain/data/unicode_bounds.py > libtrain/data/unicode_bounds.c
"""
import sys
import unicodedata

try:
    import unicodedata2
    DATABASES = [unicodedata, unicodedata2]
except ImportError:
    DATABASES = [unicodedata]

VERSION = "16.0.0"  # as in Hugging Face's tokenizers
OTHER, LETTER, NUMBER, SPACE = range(4)

# The property White_Space, which Python's database does not expose.
SPACES = {0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
          0x20, *range(0x09, 0x0e), *range(0x2000, 0x200b)}


def class_of(database, point):
    if point in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(database.category(chr(point))[0], OTHER)


def bounds(database):
    before = None
    for point in range(sys.maxunicode + 1):
        found = class_of(database, point)
        if found != before:
            yield point << 2 | found
        before = found


def main():
    database = next((d for d in DATABASES if d.unidata_version == VERSION), None)
    if database is None:
        sys.exit("needs Unicode %s: Python 3.14, or the package unicodedata2 of that version"
                 % VERSION)
    words = ["0x%x," % bound for bound in bounds(database)]
    print("/* Written by unicode_bounds.py from Unicode %s: each entry is a code point shifted\n"
          " * left by two, with the class of all code points up to the next entry in bits 0-1. */"
          % VERSION)
    print('#include "libtrain/data/unicode.h"\n\n/* clang-format off */')
    print("const uint32_t train_unicode_bounds[] = {")
    line = "   "
    for word in words:
        if len(line) + 1 + len(word) > 100:
            print(line)
            line = "   "
        line += " " + word
    print(line + "\n};\n/* clang-format on */\n")
    print("const size_t train_unicode_bound_count =\n"
          "    sizeof train_unicode_bounds / sizeof train_unicode_bounds[0];")


if __name__ == "__main__":
    main()
