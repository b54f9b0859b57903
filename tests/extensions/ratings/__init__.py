"""An app of another package that adds ratings of interrupts, with public names only."""
