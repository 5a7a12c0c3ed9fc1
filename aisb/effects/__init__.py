"""Everything that touches the world: processes, files, podman."""
