"""Link stack of sites whose connections may fail for some time (RCM)."""
