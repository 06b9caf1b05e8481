// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Eight-byte little-endian words in a byte array, the hash of a byte range by words, and the order of two byte ranges.
 *
 * <p>Java, because a {@link VarHandle} called from Scala boxes each word it reads (measured: eight times slower).
 */
public final class Words {
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;

  private Words() {}

  /** The word at byte {@code offset}; throws IndexOutOfBoundsException beyond the array. */
  public static long get(byte[] bytes, int offset) {
    return (long) LONG.get(bytes, offset);
  }

  /** Sets the word at byte {@code offset}; throws IndexOutOfBoundsException beyond the array. */
  public static void set(byte[] bytes, int offset, long word) {
    LONG.set(bytes, offset, word);
  }

  /**
   * A 32-bit hash of a byte range, unrelated to the hash that chose the bin: within one bin the low bits of that one are
   * all alike, and an index over them would collide at every probe.
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
   * Below, at or above zero where the first byte range comes before, is equal to, or comes after the second: in the order of
   * their bytes without sign, a range before those that begin with it.
   */
  public static int compare(byte[] one, int oneOffset, int oneLength, byte[] other, int otherOffset, int otherLength) {
    return Arrays.compareUnsigned(one, oneOffset, oneOffset + oneLength, other, otherOffset, otherOffset + otherLength);
  }

  /** The first of all byte strings that come after those that begin with {@code prefix}, or null where there is none. */
  public static byte[] successor(byte[] prefix) {
    int length = prefix.length;
    while (length > 0 && prefix[length - 1] == -1) length--; // 0xFF has no next byte: the one before it has
    if (length == 0) return null;
    byte[] next = Arrays.copyOf(prefix, length);
    next[length - 1]++;
    return next;
  }
}
