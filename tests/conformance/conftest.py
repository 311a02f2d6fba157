"""What is no test here: programs and backends that tests start in processes of their own."""

collect_ignore = ["bad_backends.py", "needy_backend.py"]
