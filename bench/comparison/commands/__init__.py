"""The comparisons, one module each: what it runs, its options, its columns, what it refuses. The
script of that name in bench/ runs its main()."""
