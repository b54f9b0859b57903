"""Program that runs the tests with every combination of supported versions."""
