"""What the comparisons run: builds, libraries, programs, and the machines and networks between."""
