"""The parts of bench/train-compare, bench/op-accuracy and bench/loss-compare.

peers     programs that train and answer requests for timed steps
llmc      llm.c's program, which is stopped and continued instead
survey    the rounds of bench/train-compare
table     its figures as text
plot      its figures as bars
accuracy  the table of bench/op-accuracy
losses    the table of bench/loss-compare
"""
