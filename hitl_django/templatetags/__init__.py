"""What the app's templates load."""
