"""Order certificates of a site: its blocks, and their exchange with other sites."""
