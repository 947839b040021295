"""The parts of bench/compare: `measure` runs the configurations, `figures` computes ratios,
limits and verdicts from their times, `table` and `plot` present these."""
