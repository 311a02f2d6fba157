"""What a Spark session needs: the name of the source, Java, Python."""
