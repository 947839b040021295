"""The parts of bench/parallel-compare and bench/gradient-compare.

layouts     layouts of gpt train, and the commands that run them
survey      the rounds of bench/parallel-compare
table       its figures as text, and which rows pass
plot        its figures as bars
checkpoint  reads the parameters and moments that gpt train saved
gradients   the table of bench/gradient-compare
"""
