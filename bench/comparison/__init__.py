"""What bench/compare is made of: contenders are run by `measure`, `figures` turns their times into
ratios, limits and verdicts, and `table` and `plot` show those."""
