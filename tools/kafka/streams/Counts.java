import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Counts by key, exactly once: BOOTSTRAP NAME SOURCE TARGET STATE [CACHE_BYTES], until killed. */
public final class Counts {
  private Counts() {}

  public static void main(final String[] arguments) {
    final Properties settings = new Properties();
    settings.putAll(
        Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[1],
            StreamsConfig.STATE_DIR_CONFIG, arguments[4],
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, arguments.length > 5 ? arguments[5] : "0",
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest",
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class));
    final StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.Long()))
        .groupByKey()
        .count(Materialized.as("counts"))
        .toStream()
        .to(arguments[3], Produced.with(Serdes.String(), Serdes.Long()));
    new KafkaStreams(builder.build(), settings).start();
  }
}
