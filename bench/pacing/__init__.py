"""What bench/paced is made of: `topologies` are the machines and networks, `measure` runs collbench
on them, `table` shows the outcome."""
