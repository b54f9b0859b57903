"""An app of another package that adds ratings of interrupts, through public names alone."""
