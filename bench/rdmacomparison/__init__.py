"""The parts of bench/rdma-compare: `inside.sh` measures in the virtual machine, `table` reads and
shows what it printed."""
