"""Pages of replays and studies: one self-contained file each, no network, light and dark, same input same text."""
