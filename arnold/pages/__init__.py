"""Pages of answers: one self-contained HTML file each, no network, light and dark, same input same text."""
