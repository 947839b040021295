"""Result files: a table as text, the figures as JSON and a plot as SVG, with a common base name."""
import os


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.rstrip("\n") + "\n")


def write_all(base, json_text, table_text, svg_text):
    """Writes base.json, base.txt and base.svg; returns their names for a message."""
    write(base + ".json", json_text)
    write(base + ".txt", table_text)
    write(base + ".svg", svg_text)
    return "%s.json, .txt and .svg" % os.path.relpath(base)
