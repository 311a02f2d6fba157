import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Kafka Streams' persistent stores at work, a line of input for each step: {@code prepare WORK
 * DIRECTORY ROWS}, {@code run} (answers elapsed, thread's and process's nanoseconds, and a sum over
 * what was found), {@code close}.
 *
 * <p>Stores of byte arrays, without caching and without logging: what is measured is the store.
 */
public final class StoreBench {
  private static final Serde<byte[]> BYTES = Serdes.ByteArray();
  private static final TopicPartition LOG = new TopicPartition("log", 0);
  private static final int VERSIONS = 10, BATCH = 1_000;
  private static final long HOUR = 3_600_000L;
  private static final long BEGIN = 1_700_000_000_000L - 1_700_000_000_000L % HOUR;
  private static final long GAP = 60_000L;
  private static final Duration DAY = Duration.ofDays(1);

  private final StoreRows rows;
  private final Path directory;
  private final List<StateStore> opened = new ArrayList<>();
  private StoreContext context;

  private StoreBench(final Path directory, final Path file) throws Exception {
    this.directory = Files.createDirectories(directory);
    rows = new StoreRows(file, VERSIONS);
  }

  /** What is measured; it returns the sum over what it found. */
  private interface Work {
    long run() throws Exception;
  }

  public static void main(final String[] arguments) throws Exception {
    final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    final OperatingSystemMXBean process =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    final BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    StoreBench bench = null;
    Work work = null;
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      final String[] words = line.split("\t");
      switch (words[0]) {
        case "prepare" -> {
          bench = new StoreBench(Path.of(words[2]), Path.of(words[3]));
          work = bench.prepared(words[1]);
          System.gc();
          System.out.println("prepared");
        }
        case "run" -> {
          final long all = process.getProcessCpuTime(), own = threads.getCurrentThreadCpuTime();
          final long begun = System.nanoTime();
          final long found = work.run();
          final long elapsed = System.nanoTime() - begun;
          final long ownUsed = threads.getCurrentThreadCpuTime() - own;
          final long allUsed = process.getProcessCpuTime() - all;
          System.out.println(elapsed + "\t" + ownUsed + "\t" + allUsed + "\t" + found);
        }
        case "close" -> {
          bench.opened.forEach(StateStore::close);
          work = null;
          System.out.println("closed");
        }
        default -> throw new IllegalArgumentException(line);
      }
    }
  }

  private Work prepared(final String name) {
    return switch (name) {
      case "key-value put" -> {
        final KeyValueStore<byte[], byte[]> store = keyValue();
        yield () -> put(store);
      }
      case "key-value get" -> {
        final KeyValueStore<byte[], byte[]> store = keyValue();
        put(store);
        yield () -> {
          long found = 0;
          for (final int pick : rows.picks) found += store.get(rows.keys[pick]).length;
          return found;
        };
      }
      case "key-value scan" -> {
        final KeyValueStore<byte[], byte[]> store = keyValue();
        put(store);
        yield () -> scan(store);
      }
      case "key-value restore" -> {
        final StateStore store = open(Stores.persistentKeyValueStore("restored").get());
        final List<List<ConsumerRecord<byte[], byte[]>>> batches = records(1);
        yield () -> restore(store, batches);
      }
      case "timestamped put" -> {
        final TimestampedKeyValueStore<byte[], byte[]> store = timestamped();
        yield () -> putTimestamped(store);
      }
      case "timestamped get" -> {
        final TimestampedKeyValueStore<byte[], byte[]> store = timestamped();
        putTimestamped(store);
        yield () -> {
          long found = 0;
          for (final int pick : rows.picks) found += store.get(rows.keys[pick]).value().length;
          return found;
        };
      }
      case "versioned put" -> {
        final VersionedKeyValueStore<byte[], byte[]> store = versioned();
        yield () -> putVersions(store);
      }
      case "versioned get latest" -> {
        final VersionedKeyValueStore<byte[], byte[]> store = versioned();
        putVersions(store);
        yield () -> {
          long found = 0;
          for (final int pick : rows.fewPicks) found += store.get(rows.keys[pick]).value().length;
          return found;
        };
      }
      case "versioned get as of" -> {
        final VersionedKeyValueStore<byte[], byte[]> store = versioned();
        putVersions(store);
        yield () -> {
          long found = 0;
          for (int n = 0; n < rows.times.length; n++) {
            found += store.get(rows.keys[rows.fewPicks[n]], BEGIN + rows.times[n]).value().length;
          }
          return found;
        };
      }
      case "versioned restore" -> {
        final StateStore store = open(Stores.persistentVersionedKeyValueStore("again", DAY).get());
        final List<List<ConsumerRecord<byte[], byte[]>>> batches = records(VERSIONS);
        yield () -> restore(store, batches);
      }
      case "window put" -> {
        final WindowStore<byte[], byte[]> store = window();
        yield () -> putWindows(store);
      }
      case "window fetch" -> {
        final WindowStore<byte[], byte[]> store = window();
        putWindows(store);
        yield () -> {
          long found = 0;
          for (int n = 0; n < rows.times.length; n++) {
            final long start = BEGIN + rows.times[n] - rows.times[n] % HOUR;
            found += store.fetch(rows.keys[rows.fewPicks[n]], start).length;
          }
          return found;
        };
      }
      case "window fetch of ten" -> {
        final WindowStore<byte[], byte[]> store = window();
        putWindows(store);
        yield () -> fetchTen(store);
      }
      case "timestamped window put" -> {
        final TimestampedWindowStore<byte[], byte[]> store =
            opened(
                Stores.timestampedWindowStoreBuilder(
                    Stores.persistentTimestampedWindowStore(
                        "window", DAY, Duration.ofMillis(HOUR), false),
                    BYTES,
                    BYTES));
        yield () -> {
          for (int version = 0; version < VERSIONS; version++) {
            final long start = BEGIN + version * HOUR;
            for (int row = 0; row < rows.few; row++) {
              store.put(rows.keys[row], ValueAndTimestamp.make(rows.value(row), start), start);
            }
          }
          return commit(store);
        };
      }
      case "session merge" -> {
        final SessionStore<byte[], byte[]> store =
            opened(
                Stores.sessionStoreBuilder(
                    Stores.persistentSessionStore("session", DAY), BYTES, BYTES));
        yield () -> mergeSessions(store);
      }
      default -> throw new IllegalArgumentException(name);
    };
  }

  private <S extends StateStore> S open(final S store) {
    context = new StoreContext(directory.toFile());
    store.init(context.given, store);
    opened.add(store);
    return store;
  }

  /** The store of the builder itself, without caching and without logging. */
  private <S extends StateStore> S opened(final StoreBuilder<S> builder) {
    return open(builder.withLoggingDisabled().withCachingDisabled().build());
  }

  private long commit(final StateStore store) {
    store.commit(Map.of(LOG, (long) rows.keys.length));
    return rows.keys.length;
  }

  private KeyValueStore<byte[], byte[]> keyValue() {
    return opened(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("rows"), BYTES, BYTES));
  }

  private long put(final KeyValueStore<byte[], byte[]> store) {
    for (int row = 0; row < rows.keys.length; row++) store.put(rows.keys[row], rows.value(row));
    return commit(store);
  }

  private static long scan(final KeyValueStore<byte[], byte[]> store) {
    long found = 0;
    try (KeyValueIterator<byte[], byte[]> all = store.all()) {
      while (all.hasNext()) {
        final KeyValue<byte[], byte[]> row = all.next();
        found += row.key.length + row.value.length;
      }
    }
    return found;
  }

  private TimestampedKeyValueStore<byte[], byte[]> timestamped() {
    return opened(
        Stores.timestampedKeyValueStoreBuilder(
            Stores.persistentTimestampedKeyValueStore("rows"), BYTES, BYTES));
  }

  private long putTimestamped(final TimestampedKeyValueStore<byte[], byte[]> store) {
    for (int row = 0; row < rows.keys.length; row++) {
      store.put(rows.keys[row], ValueAndTimestamp.make(rows.value(row), BEGIN + row / BATCH));
    }
    return commit(store);
  }

  private VersionedKeyValueStore<byte[], byte[]> versioned() {
    return opened(
        Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("versions", DAY), BYTES, BYTES));
  }

  private long putVersions(final VersionedKeyValueStore<byte[], byte[]> store) {
    for (int version = 0; version < VERSIONS; version++) {
      final long time = BEGIN + version * HOUR;
      for (int row = 0; row < rows.few; row++) store.put(rows.keys[row], rows.value(row), time);
    }
    return commit(store);
  }

  private WindowStore<byte[], byte[]> window() {
    return opened(
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore("window", DAY, Duration.ofMillis(HOUR), false),
            BYTES,
            BYTES));
  }

  private long putWindows(final WindowStore<byte[], byte[]> store) {
    for (int version = 0; version < VERSIONS; version++) {
      final long start = BEGIN + version * HOUR;
      for (int row = 0; row < rows.few; row++) store.put(rows.keys[row], rows.value(row), start);
    }
    return commit(store);
  }

  private long fetchTen(final WindowStore<byte[], byte[]> store) {
    long found = 0;
    for (int row = 0; row < rows.few; row++) {
      try (WindowStoreIterator<byte[]> windows =
          store.fetch(rows.keys[row], BEGIN, BEGIN + VERSIONS * HOUR)) {
        while (windows.hasNext()) found += windows.next().value.length;
      }
    }
    return found;
  }

  /** Every second event of a key follows the one before within the gap, as a session's do. */
  private long mergeSessions(final SessionStore<byte[], byte[]> store) {
    long merged = 0;
    for (int version = 0; version < VERSIONS; version++) {
      final long time = BEGIN + (version / 2) * HOUR + (version % 2) * (GAP / 2);
      for (int row = 0; row < rows.few; row++) {
        long start = time, end = time;
        final List<Windowed<byte[]>> replaced = new ArrayList<>();
        try (KeyValueIterator<Windowed<byte[]>, byte[]> found =
            store.findSessions(rows.keys[row], time - GAP, time + GAP)) {
          while (found.hasNext()) {
            final Windowed<byte[]> session = found.next().key;
            replaced.add(session);
            start = Math.min(start, session.window().start());
            end = Math.max(end, session.window().end());
          }
        }
        for (final Windowed<byte[]> session : replaced) store.remove(session);
        store.put(new Windowed<>(rows.keys[row], new SessionWindow(start, end)), rows.value(row));
        merged += replaced.size();
      }
    }
    commit(store);
    return merged;
  }

  private List<List<ConsumerRecord<byte[], byte[]>>> records(final int versions) {
    final int each = versions == 1 ? rows.keys.length : rows.few;
    final List<List<ConsumerRecord<byte[], byte[]>>> batches = new ArrayList<>();
    for (int n = 0; n < each * versions; n++) {
      if (n % BATCH == 0) batches.add(new ArrayList<>());
      final int row = n % each;
      batches
          .get(n / BATCH)
          .add(
              new ConsumerRecord<>(
                  "log",
                  0,
                  n,
                  BEGIN + (n / each) * HOUR,
                  TimestampType.CREATE_TIME,
                  StoreRows.KEY_BYTES,
                  StoreRows.VALUE_BYTES,
                  rows.keys[row],
                  rows.value(row),
                  new RecordHeaders(),
                  Optional.empty()));
    }
    return batches;
  }

  private long restore(
      final StateStore store, final List<List<ConsumerRecord<byte[], byte[]>>> batches) {
    final RecordBatchingStateRestoreCallback callback =
        (RecordBatchingStateRestoreCallback) context.restore;
    for (final List<ConsumerRecord<byte[], byte[]>> batch : batches) callback.restoreBatch(batch);
    return commit(store);
  }
}
