"""Plain torch references, one operation per file; `out` arguments are written in place, as the kernels do."""
