"""Optional apps, and integrations of other packages. The core imports none of them."""
