"""The parts of bench/python-overhead: `calls` is the program that the ranks run, `table` shows what
was measured."""
