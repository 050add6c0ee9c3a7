"""Reading what people attach, and sending files to them."""
