import java.io.File;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.Task;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/** What Kafka Streams' own stores ask of the task around them, and no more. */
final class StoreContext {
  private static final StreamsMetricsImpl METRICS =
      new StreamsMetricsImpl(new Metrics(), "stores", Time.SYSTEM);

  final InternalProcessorContext<?, ?> given;
  StateRestoreCallback restore;

  StoreContext(final File directory) {
    final TaskId task = new TaskId(0, 0);
    given =
        (InternalProcessorContext<?, ?>)
            Proxy.newProxyInstance(
                StoreContext.class.getClassLoader(),
                new Class<?>[] {InternalProcessorContext.class},
                (proxy, method, arguments) ->
                    switch (method.getName()) {
                      case "taskId" -> task;
                      case "taskType" -> Task.TaskType.ACTIVE;
                      case "applicationId" -> "stores";
                      case "appConfigs" -> Map.of("metrics.recording.level", "INFO");
                      case "stateDir" -> directory;
                      case "metrics" -> METRICS;
                      case "currentSystemTimeMs", "currentStreamTimeMs" -> 0L;
                      case "recordMetadata" -> Optional.empty();
                      case "recordContext", "changelogFor" -> null;
                      case "headers" -> new RecordHeaders();
                      case "keySerde", "valueSerde" -> Serdes.ByteArray();
                      case "register" -> {
                        for (final Object each : arguments) {
                          if (each instanceof StateRestoreCallback callback) restore = callback;
                        }
                        yield null;
                      }
                      case "hashCode" -> System.identityHashCode(proxy);
                      case "equals" -> proxy == arguments[0];
                      case "toString" -> "StoreContext";
                      default -> throw new UnsupportedOperationException(method.toString());
                    });
  }
}
