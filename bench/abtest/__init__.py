"""What bench/ab is made of: `builds` finds or makes the two builds and copies them, `rows` names
what is compared, `rounds` measures it, `verdict` holds the statistics and the rule, `table` and
`plot` show the outcome."""
