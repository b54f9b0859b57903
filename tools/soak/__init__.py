"""Hours in the life of two machines at which everything goes wrong at some time."""
