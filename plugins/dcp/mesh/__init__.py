"""Forming, maintaining and repairing a mesh: joins, levels, beacons (`docs/protocols/mesh.md`)."""
