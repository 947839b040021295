"""One runner, one table and one way to plot for all comparisons in bench/.

commands/     the comparisons, a module each: what runs, its options, its columns, what it refuses
contenders/   what is compared: builds, libraries, programs, and the hosts and links between them
plots/        pictures

command       the frame of a command: options, exit codes, results files
arguments     types of options
machine       the machine, the revision and the time of a measurement
launch        starts programs, under a time limit
progress      a progress line
rounds        contenders in turn, round after round; medians and intervals
survey        rounds of collectives
judgement     whether rows got slower than those of an older side
figures       ratios, limits and targets of rows with peers
peer_table    the table and the plot of these
core_latency  the latency between cores, which changes in a virtual machine
rows, sizes   names of rows; numbers of bytes
table         tables
output        standard output that is checked; also of the programs in tools/
"""
