// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Reads and writes eight-byte little-endian words in byte arrays; hashes and compares byte ranges.
 *
 * <p>In Java, because a {@link VarHandle} called from Scala boxes each word that it reads (measured
 * to be eight times slower).
 */
public final class Words {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;

  private Words() {}

  /**
   * Returns the word at byte {@code offset}. Throws IndexOutOfBoundsException if it ends beyond the
   * array.
   */
  public static long get(byte[] bytes, int offset) {
    return (long) LONG.get(bytes, offset);
  }

  /** Sets the word at byte {@code offset}. Throws as {@code get} does. */
  public static void set(byte[] bytes, int offset, long word) {
    LONG.set(bytes, offset, word);
  }

  /**
   * Returns a 32-bit hash of a byte range. It is unrelated to the hash that chose the bin: within a
   * bin the low bits of that hash are all equal, and an index on them would collide at every probe.
   */
  public static int hash(byte[] bytes, int offset, int length) {
    long h = length * MULTIPLIER;
    int end = offset + (length & ~7);
    int i = offset;
    for (; i < end; i += 8) {
      h = (h ^ get(bytes, i)) * MULTIPLIER;
      h ^= h >>> 29;
    }
    for (; i < offset + length; i++) {
      h = (h ^ bytes[i]) * MULTIPLIER;
      h ^= h >>> 29;
    }
    h *= MULTIPLIER;
    return (int) (h >>> 32);
  }

  /**
   * Compares two byte ranges by their unsigned bytes; a prefix sorts before a longer range. Returns
   * a number below, equal to or above zero if the first range is less than, equal to or greater
   * than the second.
   */
  public static int compare(
      byte[] one, int oneOffset, int oneLength, byte[] other, int otherOffset, int otherLength) {
    return Arrays.compareUnsigned(
        one, oneOffset, oneOffset + oneLength, other, otherOffset, otherOffset + otherLength);
  }

  /**
   * Returns the smallest byte string that is greater than all that begin with {@code prefix}, or
   * null if none exists: if the prefix has no byte other than 0xFF.
   */
  public static byte[] successor(byte[] prefix) {
    int length = prefix.length;
    while (length > 0 && prefix[length - 1] == -1) length--; // 0xFF cannot be incremented
    if (length == 0) return null;
    byte[] next = Arrays.copyOf(prefix, length);
    next[length - 1]++;
    return next;
  }
}
