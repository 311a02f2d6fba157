import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/** The rows that both sides work on, from the file that the other side has written. */
final class StoreRows {
  static final int KEY_BYTES = 16, VALUE_BYTES = 100;

  /** A key for each row, all of them different. */
  final byte[][] keys;

  /** Values, which rows share in turns. */
  final byte[][] values;

  /** Places of the keys that reads ask for, of all keys, and of the few that have versions. */
  final int[] picks, fewPicks;

  /** The times that reads ask for, in milliseconds after the first version. */
  final long[] times;

  /** How many keys have versions or windows. */
  final int few;

  StoreRows(final Path file, final int versions) throws IOException {
    final ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file));
    keys = new byte[data.getInt()][KEY_BYTES];
    values = new byte[data.getInt()][VALUE_BYTES];
    final int reads = data.getInt();
    few = keys.length / versions;
    for (final byte[] key : keys) data.get(key);
    for (final byte[] value : values) data.get(value);
    picks = new int[reads];
    fewPicks = new int[reads];
    times = new long[reads];
    for (int n = 0; n < reads; n++) picks[n] = data.getInt();
    for (int n = 0; n < reads; n++) fewPicks[n] = data.getInt();
    for (int n = 0; n < reads; n++) times[n] = data.getLong();
  }

  byte[] value(final int row) {
    return values[row % values.length];
  }
}
