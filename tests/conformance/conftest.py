"""What is no test here: programs and backends that tests start in processes of their own."""

collect_ignore = ["kit"]
