"""What each site of a group has logged and delivered, told to the others and to subscriptions."""
