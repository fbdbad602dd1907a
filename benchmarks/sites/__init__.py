"""Sites of a group in virtual time, and the experiments of the RCM paper with them."""
