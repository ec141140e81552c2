"""Many replays: policies x clusters x seeds."""
