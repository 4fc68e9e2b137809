"""Reading what people committed: pure tests on texts and folders."""
