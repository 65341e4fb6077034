"""A study of budgets: what each cell is, in which order they are tried, what stops it, and what was found."""
