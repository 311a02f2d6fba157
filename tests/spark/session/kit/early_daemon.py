"""A daemon as somebody might write one, who looks something up before the workers are forked."""

from pyspark.daemon import manager
from pyspark_threads_worker import use_each_driver

if __name__ == "__main__":
    use_each_driver()
    manager()
