"""Input and output of `xmlbroker explain`."""
