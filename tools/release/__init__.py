"""Program that builds a release: the packages, their bill of materials, and the release notes."""
