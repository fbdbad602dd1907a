"""What `xmlbroker explain` reads and prints."""
