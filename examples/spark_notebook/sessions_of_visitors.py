"""A notebook: editors and Jupyter show each "# %%" as a cell.

`spark` and `directory` are made by the first one, unless they are there already.
"""

# %% [markdown]
# # State that you can look into
#
# A store holds the sessions of visitors. This notebook writes it, looks at it at several moments,
# follows its changes, and asks the same questions in SQL.

# %%
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from statestores.spark import ensure_java, register, unregister

if "spark" not in globals():
    ensure_java()
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    directory = Path(tempfile.mkdtemp())
spark.conf.set("spark.sql.session.timeZone", "UTC")
register(spark)  # format("statestore") reads our stores as well, and Spark's checkpoints as before
state = str(directory / "visits")

# %% [markdown]
# ## Write
# The columns say which kind of store it is; the options what a new one is like.

# %%
visits = spark.sql(
    """
    SELECT * FROM VALUES
      ('ann', 3, timestamp'2024-05-01 10:00:00', timestamp'2024-05-01 10:07:30'),
      ('ann', 1, timestamp'2024-05-02 18:00:00', timestamp'2024-05-02 18:00:00'),
      ('bob', 9, timestamp'2024-05-01 23:50:00', timestamp'2024-05-02 00:20:00')
    AS visits(key, value, session_start, session_end)
    """
)
visits.write.format("statestore").options(storeName="visits", retention="30d").save(state)

# %% [markdown]
# ## Read
# What is shown is as fresh as the last commit. No lock of the writer is taken.

# %%
content = spark.read.format("statestore").load(state)
content.orderBy("key", "session_start").show(truncate=False)

# %% [markdown]
# A session grows: the old one is deleted, and the longer one put. `offset` shows the store before.

# %%
grown = spark.sql(
    """
    SELECT * FROM VALUES
      ('ann', CAST(NULL AS INT), timestamp'2024-05-02 18:00:00', timestamp'2024-05-02 18:00:00'),
      ('ann', 4, timestamp'2024-05-02 18:00:00', timestamp'2024-05-02 18:12:00')
    AS visits(key, value, session_start, session_end)
    """
)
grown.write.format("statestore").mode("append").save(state)
longest = content.selectExpr("key", "session_end - session_start AS length", "value")
longest.orderBy("length", ascending=False).show(truncate=False)

# %% [markdown]
# ## What has changed
# Each change with its offset in the partition's changelog.

# %%
changes = spark.read.format("statestore").option("readChangeFeed", "true").load(state)
changes.orderBy("partition", "offset").drop("timestamp").show(truncate=False)

# %% [markdown]
# ## SQL

# %%
spark.sql(f"CREATE OR REPLACE TEMP VIEW visits USING statestore OPTIONS (path '{state}')")
pages = spark.sql("SELECT key, sum(value) AS pages FROM visits GROUP BY key ORDER BY key")
pages.show()

# %%
unregister(spark)
