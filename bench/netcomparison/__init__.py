"""The parts of bench/compare --net: `command` reads the options, `hosts` makes network namespaces,
`contenders` says what runs in them, `measure` runs it, `hierarchy` compares algorithms, `report`
presents the figures."""
