"""The parts of bench/mpi-layer: mpis.py finds MPIs and starts programs under them, report.py makes
the table, the plot and the JSON document of what was measured; loop.c is the program."""
