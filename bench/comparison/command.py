"""The frame of a comparison's command: its options, how it ends, and its results files.

Exit codes: 0; LOST if the comparison was made and lost; FAILED if it could not be made; INTERRUPTED
after Ctrl-C."""
import argparse
import json
import os
import random
import subprocess
import sys

from comparison import launch, output

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))
LOST, FAILED, INTERRUPTED = 1, 2, 130


# ---- options -------------------------------------------------------------------------------------

class Parser(argparse.ArgumentParser):
    """name: "bench/ab"."""

    def __init__(self, name, description, examples=None):
        super().__init__(prog=name, description=description, epilog=examples,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def add_build(self, can_omit=False):
        self.add_argument("--build", default=os.path.join(ROOT, "build"),
                          help="build folder (build)")
        if can_omit:
            self.add_argument("--no-build", action="store_true",
                              help="use the build folder as it is")

    def add_seed(self):
        self.add_argument("--seed", type=int, help="of the random order",
                          default=random.SystemRandom().randrange(1 << 32))

    def add_name(self, default="none"):
        self.add_argument("--name", help="of the files in bench/results (%s)" % default)

    def add_json(self):
        self.add_argument("--json", metavar="FILE", help="also write the figures to this file")

    def add_out(self, *ends):
        files = ", ".join("PREFIX." + end for end in ends[:-1]) + " and PREFIX." + ends[-1]
        self.add_argument("--out", metavar="PREFIX", help="write " + files)

    def add_from(self):
        self.add_argument("--from", dest="source", metavar="FILE",
                          help="show these figures instead of measuring")

    def parse_needing_python(self):
        """The options; --python or --from must be among them."""
        options = self.parse_args()
        if not options.source and not options.python:
            self.error("give --python or --from")
        return options


def say(name, text):
    print("%s: %s" % (name, text), file=sys.stderr, flush=True)


def run(name, main):
    """Ends the process with the exit code that main() returns."""
    output.check(name)
    end_with(main, name)


def end_with(main, name):
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError, launch.Trouble) as trouble:
        say(name, str(trouble))
        sys.exit(FAILED)


# ---- results -------------------------------------------------------------------------------------

def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.rstrip("\n") + "\n")


def read(path, name):
    """The document that the command wrote."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    if not isinstance(document, dict) or document.get("tool") != name:
        raise ValueError("%s holds no figures of %s" % (path, name))
    return document


def read_merged(paths, name):
    """(the first document with the contenders and failures of all, all documents)."""
    documents = [read(path, name) for path in paths]
    merged = dict(documents[0])
    for document in documents[1:]:
        merged["contenders"] = {**document["contenders"], **merged["contenders"]}
        merged["failures"] = merged["failures"] + document["failures"]
    return merged, documents


def save(options, document, text, drawing=None):
    """Writes the files that the options ask for: `json` alone, and with a common beginning the
    document as JSON, the text, and the drawing as SVG."""
    figures = json.dumps(document, indent=1)
    if isinstance(getattr(options, "json", None), str):
        write(options.json, figures)
    base = getattr(options, "out", None)
    if getattr(options, "name", None):
        base = os.path.join(ROOT, "bench", "results", options.name)
    if base:
        for end, content in (("json", figures), ("txt", text), ("svg", drawing)):
            if content is not None:
                write("%s.%s" % (base, end), content)


def compare(options, name, take, text_of, draw=None):
    """Measures, or reads what was measured; prints and saves it. Returns the document."""
    document = read(options.source, name) if options.source else take(options)
    text = text_of(document)
    print(text)
    save(options, document, text, draw and draw(document))
    return document


def compare_each(options, name, key, measured, lines, **about):
    """The same of several documents, a list at that key, which are printed as they are measured.
    Returns the list."""
    documents = []
    for document in read(options.source, name)[key] if options.source else measured:
        documents.append(document)
        print("\n".join(lines(document)), flush=True)
    save(options, {"tool": name, **about, key: documents},
         "\n".join(line for document in documents for line in lines(document)))
    return documents
