import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The same application in Kafka Streams: BOOTSTRAP NAME STATE, until standard input ends.
 *
 * <p>It counts the records of NAME-clicks by key, by key and window, and by key and session, and
 * keeps their versions; what changes goes to NAME-counts, -windows, -sessions and -versions.
 */
public final class Peer {
  private Peer() {}

  public static void main(final String[] arguments) throws Exception {
    final String name = arguments[1];
    final Properties settings = new Properties();
    settings.putAll(
        Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.APPLICATION_ID_CONFIG, name,
            StreamsConfig.STATE_DIR_CONFIG, arguments[2],
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            // A topic begins where it begins, and a member that is gone leaves at once.
            StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest",
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class));
    final StreamsBuilder builder = new StreamsBuilder();
    final Produced<String, Long> written = Produced.with(Serdes.String(), Serdes.Long());
    final KStream<String, Long> clicks =
        builder.stream(name + "-clicks", Consumed.with(Serdes.String(), Serdes.Long()));
    // Windows would count deletions, too.
    final KGroupedStream<String, Long> grouped =
        clicks.filter((key, value) -> value != null).groupByKey();
    grouped.count(Materialized.as("counts")).toStream().to(name + "-counts", written);
    grouped
        .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)))
        .count(
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("tens")
                .withRetention(Duration.ofMillis(100)))
        .toStream((window, count) -> window.key())
        .to(name + "-windows", written);
    grouped
        .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(8)))
        .count(
            Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("bursts")
                .withRetention(Duration.ofMillis(100)))
        .toStream((window, count) -> window.key())
        .to(name + "-sessions", written);
    clicks
        .toTable(
            Materialized.as(
                Stores.persistentVersionedKeyValueStore("history", Duration.ofMillis(1_000))))
        .toStream()
        .to(name + "-versions", written);
    try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
      streams.start();
      while (System.in.read() >= 0) {
        // Nothing is asked of it.
      }
      streams.close(
          CloseOptions.groupMembershipOperation(
              CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
    }
  }
}
