"""The test suite; an installed app too, so that its graphs are found like anybody's."""
