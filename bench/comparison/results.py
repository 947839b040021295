"""Files of figures: for each measurement a table for people, the figures as JSON and a plot, under
one name."""
import os


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.rstrip("\n") + "\n")


def write_all(base, json_text, table_text, svg_text):
    """Writes base.json, base.txt and base.svg; returns how to name them in a sentence."""
    write(base + ".json", json_text)
    write(base + ".txt", table_text)
    write(base + ".svg", svg_text)
    return "%s.json, .txt and .svg" % os.path.relpath(base)
