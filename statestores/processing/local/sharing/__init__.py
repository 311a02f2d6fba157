"""Several processes on one state: who is there, who has which task, and who waits for whom."""
