"""The parts of bench/torch-compare: `ranks` is the program that the ranks run, `loop.cpp` makes the
calls from C++, `table` shows what was measured."""
